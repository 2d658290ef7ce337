import { errcode, RegistryError } from '../errors.ts'

/** Returns the error for an invalid archive: errcode 3, HTTP 400. `details` helps the publisher to fix it. */
export function archiveRefusal(why: string, details: string[] = []): RegistryError {
  return new RegistryError(errcode.invalidArgument, `invalid archive: ${why}`, { details })
}

/** Returns the error for an archive with an invalid entry. The message names the entry. */
export function entryRefusal(name: string, why: string, details: string[] = []): RegistryError {
  return archiveRefusal(`${quoted(name)} ${why}`, details)
}

/** Returns the error for an archive that is too large to process: errcode 8, HTTP 413. */
export function oversizeRefusal(why: string): RegistryError {
  return new RegistryError(errcode.resourceExhausted, `archive too large: ${why}`, { status: 413 })
}

/** Formats a name for a message: in quotes, with escaped control characters, and with at most 200 characters. */
export function quoted(name: string): string {
  const json = JSON.stringify(name.length > 200 ? `${name.slice(0, 199)}…` : name)
  return json.replace(/[\p{Cc}\p{Bidi_C}\u2028\u2029]/gu, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/**
 * Awaits a parser of uploaded bytes. A parse error becomes a `RegistryError` that names the entry. The error of a
 * system call is thrown unchanged, because a failing disk is not the publisher's fault.
 */
export async function parsing<T>(what: string, parsed: Promise<T>): Promise<T> {
  try {
    return await parsed
  } catch (error) {
    if (error instanceof RegistryError || !(error instanceof Error) || 'syscall' in error) throw error
    throw archiveRefusal(`${what}: ${error.message}`)
  }
}
