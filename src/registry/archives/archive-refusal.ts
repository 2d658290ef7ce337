import { errcode, RegistryError } from '../errors.ts'

/** The refusal of a whole archive: errcode 3, HTTP 400. `details` is help for the publisher. */
export function archiveRefusal(why: string, details: string[] = []): RegistryError {
  return new RegistryError(errcode.invalidArgument, `invalid archive: ${why}`, { details })
}

/** The refusal of an archive because of one entry, which it names. */
export function entryRefusal(name: string, why: string, details: string[] = []): RegistryError {
  return archiveRefusal(`${quoted(name)} ${why}`, details)
}

/** The refusal of an archive that would cost too much: errcode 8, HTTP 413. */
export function oversizeRefusal(why: string): RegistryError {
  return new RegistryError(errcode.resourceExhausted, `archive too large: ${why}`, { status: 413 })
}

/** A name for a message: in quotes, control characters escaped, at most 200 characters. */
export function quoted(name: string): string {
  const json = JSON.stringify(name.length > 200 ? `${name.slice(0, 199)}…` : name)
  return json.replace(/[\p{Cc}\p{Bidi_C}\u2028\u2029]/gu, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/**
 * Awaits a parser of foreign bytes. What it throws about the bytes becomes a refusal that names the entry; the
 * error of a system call stays what it is, for a failing disk is not the publisher's fault.
 */
export async function parsing<T>(what: string, parsed: Promise<T>): Promise<T> {
  try {
    return await parsed
  } catch (error) {
    if (error instanceof RegistryError || !(error instanceof Error) || 'syscall' in error) throw error
    throw archiveRefusal(`${what}: ${error.message}`)
  }
}
