/**
 * Returns the visible texts of the open page by their look: everything on which the rules for colors depend. It runs in
 * the page.
 */
export function listLooks(): Map<string, Element[]> {
  const invisible = 'rgba(0, 0, 0, 0) none 1 none normal'
  /** Describes what an element, or a part of it that the style adds, paints, and how it is mixed with what is behind it. */
  const layerOf = (style: CSSStyleDeclaration) =>
    [style.backgroundColor, style.backgroundImage, style.opacity, style.filter, style.mixBlendMode].join(' ')

  const known = new Map<Element, string>()
  /** Describes everything that is behind the text of an element. */
  function behind(element: Element | null): string {
    if (!element) return ''
    const cached = known.get(element)
    if (cached !== undefined) return cached
    const style = getComputedStyle(element)
    const layers = [behind(element.parentElement), layerOf(style)]
    for (const part of ['::before', '::after']) {
      const added = getComputedStyle(element, part)
      if (added.content !== 'none') layers.push(`${part} ${added.position} ${layerOf(added)}`)
    }
    // It may lie over others than those that contain it.
    if (/absolute|fixed|sticky/.test(style.position)) layers.push(style.position)
    const look = layers.filter((layer) => layer !== invisible).join('; ')
    known.set(element, look)
    return look
  }

  /** Axe judges no contrast of signs alone, such as the dots of a menu. */
  const hasWords = (node: Node) => node instanceof Text && /[\p{L}\p{N}]/u.test(node.data)

  const isInline = (element: Element) => getComputedStyle(element).display === 'inline'

  /** Returns whether lines of an element have text that belongs to no link. */
  function hasText(element: Element): boolean {
    return [...element.childNodes].some((node) =>
      node instanceof Element ? isInline(node) && !node.matches('a[href]') && hasText(node) : hasWords(node),
    )
  }

  /** Describes the text around a link. Empty for a link without text around it, and for other elements. */
  function around(element: Element): string {
    if (!element.matches('a[href]') || !isInline(element)) return ''
    let block = element.parentElement
    while (block && isInline(block)) block = block.parentElement
    return block && hasText(block) ? `in text ${getComputedStyle(block).color}` : ''
  }

  /** Returns whether people see an element: others are for screen readers, or until they get the focus. */
  function isSeen(element: Element): boolean {
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return false
    const { width, height, right, bottom } = element.getBoundingClientRect()
    return Math.min(width, height) > 1 && right + window.scrollX > 0 && bottom + window.scrollY > 0
  }

  /** Returns whether an image or a gradient is behind an element. Axe cannot tell its contrast then. */
  function isOverImage(element: Element | null): boolean {
    if (!element) return false
    const { backgroundImage, backgroundColor } = getComputedStyle(element)
    const isOpaque = backgroundColor.startsWith('rgb(')
    return backgroundImage !== 'none' || (!isOpaque && isOverImage(element.parentElement))
  }

  const looks = new Map<string, Element[]>()
  for (const element of document.body.querySelectorAll('*')) {
    const isText = [...element.childNodes].some((node) => hasWords(node))
    if (!(isText || element.matches('input, select, textarea')) || !isSeen(element) || isOverImage(element))
      continue
    const { color, fontSize, fontWeight, textShadow, textDecorationLine, borderBottom } =
      getComputedStyle(element)
    const own = [color, fontSize, fontWeight, textShadow, textDecorationLine, borderBottom]
    const look = [own.join(' '), around(element), behind(element)].join(' | ')
    looks.set(look, [...(looks.get(look) ?? []), element])
  }
  return looks
}
