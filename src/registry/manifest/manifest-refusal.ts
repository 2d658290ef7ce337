import { errcode, RegistryError } from '../errors.ts'

/**
 * Refuses a composer.json, naming the field (`require.acme/other`, or '' for the file as a whole) and saying what
 * is wrong as a sentence that goes on from there.
 */
export function refuseManifest(field: string, wrong: string): never {
  const place = field === '' ? 'composer.json' : `composer.json: ${shown(field)}`
  throw new RegistryError(errcode.invalidArgument, `${place} ${wrong}`)
}

/** Refuses a composer.json for its size. */
export function refuseLargeManifest(wrong: string): never {
  throw new RegistryError(errcode.resourceExhausted, `composer.json ${wrong}`, { status: 413 })
}

/** A text of a foreign manifest as a message may show it: short, and nothing that a terminal would obey. */
export function shown(text: string): string {
  const characters = Array.from(text.slice(0, 200).replace(/[^\p{L}\p{N}\p{P}\p{S} ]/gu, '?'))
  return characters.length > 100 ? `${characters.slice(0, 99).join('')}…` : characters.join('')
}
