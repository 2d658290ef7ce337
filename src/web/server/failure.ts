import pg from 'pg'
import { isLostToAnother, isOutage, isReferenceGone } from '../../database/errors.ts'
import { describeRule } from '../../database/rules.ts'
import { Refusal } from '../../domain/refusal.ts'

/** Returns the message of a fatal error: one line, or a list of mistakes. It never contains a stack. */
export function explainFailure(error: unknown): string {
  if (error instanceof AggregateError) return explainFailure(error.errors[0])
  if (error instanceof pg.DatabaseError) return explainDatabaseError(error)
  if (error instanceof Refusal) return explainRefusal(error)
  if (error instanceof Error) return explainSystemError(error) ?? error.message
  return String(error)
}

/** The PostgreSQL error codes of a schema that is older than this program. */
const missingSchema = new Set(['42P01', '42703', '42704', '42883'])

function explainDatabaseError(error: pg.DatabaseError): string {
  if (missingSchema.has(error.code ?? '')) {
    return `The database lacks migrations (${error.message}): run svc migrate.`
  }
  if (isLostToAnother(error)) {
    return 'Nothing was changed: something else was changing the same data at the same moment. Run it again.'
  }
  if (isReferenceGone(error))
    return 'Nothing was changed: something that belongs to it was deleted a moment ago.'
  return error.constraint ? describeRule(error.constraint) : `The database refused: ${error.message}.`
}

/** Clients do not see the cause of such an error. Operators need it, such as what a bucket has responded. */
function explainRefusal({ message, warning, cause }: Refusal): string {
  // An archive that could not be written has the error of the disk as its cause.
  const diskError = cause instanceof Error ? explainDiskError(cause) : null
  if (diskError !== null) return diskError
  const reasons = [warning, causeOf(cause)].filter((reason) => reason !== undefined && reason !== '')
  // A message may already have the words of its cause.
  return [message, ...reasons.filter((reason) => !message.includes(reason as string))].join(': ')
}

/** Returns the message of the innermost cause, or its code when it has no message. */
function causeOf(error: unknown): string | undefined {
  if (error instanceof AggregateError) return causeOf(error.errors[0])
  if (!(error instanceof Error)) return undefined
  return causeOf(error.cause) ?? (error.message || (error as NodeJS.ErrnoException).code)
}

function explainSystemError(
  error: NodeJS.ErrnoException & { address?: string; port?: number },
): string | null {
  if (error.syscall === 'listen' || error.syscall === 'bind') return explainListening(error)
  if (error.syscall === 'getaddrinfo') return `A host name in the configuration is unknown: ${error.message}.`
  if (isOutage(error)) return `The database does not respond: ${error.message}.`
  return explainDiskError(error)
}

function explainDiskError(error: NodeJS.ErrnoException): string | null {
  if (error.syscall === undefined || error.code === undefined) return null
  if (error.code === 'ENOSPC' || error.code === 'EDQUOT')
    return `No space is left on the disk (${error.message}): free some, and try again.`
  return error.path === undefined ? null : `${error.path} cannot be used (${error.code}, ${error.syscall}).`
}

function explainListening(error: NodeJS.ErrnoException & { address?: string; port?: number }): string {
  const place = `${error.address}:${error.port}`
  if (error.code === 'EADDRINUSE')
    return `Another program listens on ${place}: stop it, or set PORT to another number.`
  if (error.code === 'EACCES') return `This user may not listen on ${place}: set PORT to a number above 1023.`
  if (error.code === 'EADDRNOTAVAIL') return `This machine does not have the IP ${error.address}: check HOST.`
  return `Listening on ${place} failed: ${error.message}.`
}
