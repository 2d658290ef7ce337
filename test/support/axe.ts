import { readFile } from 'node:fs/promises'
import type { BrowserContext, Page } from 'playwright-core'
import { expect } from 'vitest'

const axe = await readFile('node_modules/axe-core/axe.min.js', 'utf8')

/** The contexts whose pages have a function that loads axe. */
const prepared = new WeakSet<BrowserContext>()

/**
 * Loads axe into the open page. The first call in a context sends it to the browser for all later pages, which load it
 * when they are checked: sending its half megabyte to each page takes more than loading it.
 */
async function loadAxe(page: Page): Promise<void> {
  await page.evaluate(axe)
  const context = page.context()
  if (prepared.has(context)) return
  prepared.add(context)
  await context.addInitScript(`window.loadAxe = () => {${axe}}`)
}

/**
 * Runs axe in the open page. Null if the page has no axe. Each request to the browser takes time of the processor, also
 * of the test: one does it all.
 */
async function findViolations(page: Page, rules: string[] | undefined): Promise<string[] | null> {
  return await page.evaluate(async (ids) => {
    const loaded = window as unknown as {
      loadAxe?: () => void
      axe?: { run: (options: object) => Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> }
    }
    if (!loaded.axe) loaded.loadAxe?.()
    if (!loaded.axe) return null
    // After a change of the color scheme, Swagger UI fades from one color to the other.
    for (const animation of document.getAnimations())
      if (animation instanceof CSSTransition) animation.finish()
    // Without these options, axe also computes a CSS selector of each element that passes a rule.
    const fast = { resultTypes: ['violations'], selectors: false }
    const { violations } = await loaded.axe.run(ids ? { ...fast, runOnly: ids } : fast)
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
  }, rules)
}

/** Checks the open page with axe, in the color scheme that it has now: with all rules, or only those with these ids. */
export async function checkAccess(page: Page, what: string, rules?: string[]): Promise<void> {
  let found = await findViolations(page, rules)
  if (!found) {
    await loadAxe(page)
    found = await findViolations(page, rules)
  }
  expect(found, what).toEqual([])
}

/**
 * Checks that the open page is not wider than a narrow screen, and runs other checks at each narrow width. Checks the
 * wider one with text of twice the size, too (WCAG 1.4.4). The page gets its width back.
 */
export async function checkNarrow(
  page: Page,
  what: string,
  others: (where: string) => Promise<void> = async () => {},
): Promise<void> {
  const before = page.viewportSize()
  for (const width of [320, 375]) {
    await page.setViewportSize({ width, height: 740 })
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
    expect(overflow, `${what} at ${width} px`).toBeLessThanOrEqual(0)
    await others(`${what} at ${width} px`)
  }
  const large = await page.evaluate(() => {
    const { style } = document.documentElement
    style.fontSize = '200%'
    const overflow = document.documentElement.scrollWidth - window.innerWidth
    const fields = [...document.querySelectorAll('main form.search input[type="search"]')]
    const narrowFields = fields.filter((field) => field.getBoundingClientRect().width < 150).length
    style.fontSize = ''
    return { overflow, narrowFields }
  })
  expect(large.overflow, `${what} with text of twice the size`).toBeLessThanOrEqual(0)
  expect(large.narrowFields, `search fields of ${what} with text of twice the size`).toBe(0)
  if (before) await page.setViewportSize(before)
}
