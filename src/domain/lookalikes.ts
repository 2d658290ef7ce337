/** Letters and digits that look alike, after NFKD and lower case: each left one counts as the right one. */
const twins = new Map(
  Object.entries({
    // Cyrillic
    ...{
      а: 'a',
      в: 'b',
      с: 'c',
      ԁ: 'd',
      е: 'e',
      н: 'h',
      һ: 'h',
      і: 'i',
      ј: 'j',
      к: 'k',
      ӏ: 'l',
      м: 'm',
      о: 'o',
    },
    ...{ р: 'p', ԛ: 'q', ѕ: 's', т: 't', ѵ: 'v', ԝ: 'w', х: 'x', у: 'y' },
    // Greek
    ...{
      α: 'a',
      β: 'b',
      ε: 'e',
      η: 'h',
      ι: 'i',
      κ: 'k',
      μ: 'm',
      ν: 'v',
      ο: 'o',
      ρ: 'p',
      τ: 't',
      υ: 'y',
      χ: 'x',
    },
    // ASCII. The capital of i looks like l.
    ...{ '0': 'o', '1': 'l', i: 'l' },
  }),
)

/**
 * Returns a form of a name that names share when a reader may take one for the other: without case, accents, spaces and
 * punctuation, and with one letter for those that look alike, also of Cyrillic and Greek. Not for display.
 */
export function skeletonOf(name: string): string {
  const letters = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, '')
  const plain = Array.from(letters, (letter) => twins.get(letter) ?? letter)
  // The twin of a letter may have a twin: і → i → l.
  return plain.map((letter) => twins.get(letter) ?? letter).join('')
}

/** Returns whether a word of a text has letters of two of the scripts Latin, Greek and Cyrillic, which look alike. */
export function mixesScripts(text: string): boolean {
  const scripts = [/\p{Script=Latin}/u, /\p{Script=Greek}/u, /\p{Script=Cyrillic}/u]
  const words = text.normalize('NFKC').match(/[\p{L}\p{M}\p{N}]+/gu) ?? []
  return words.some((word) => scripts.filter((script) => script.test(word)).length > 1)
}
