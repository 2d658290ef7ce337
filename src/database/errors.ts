import pg from 'pg'

/**
 * Returns the name of the constraint or unique index that a statement broke. Null for any other error. The error of a
 * migration names its file, and its cause is the error of the database.
 */
export function brokenConstraint(error: unknown): string | null {
  if (error instanceof pg.DatabaseError) return error.constraint ?? null
  return error instanceof Error && error.cause !== undefined ? brokenConstraint(error.cause) : null
}

/** Returns whether a change failed because a row that it refers to was deleted a moment ago, such as the account. */
export function isReferenceGone(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '23503'
}

/** Returns whether PostgreSQL ended the transaction because it and another one waited for each other. */
export function isDeadlock(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '40P01'
}

/** Returns whether a transaction lost to another one: both waited for each other, or the other one took too long. */
export function isLostToAnother(error: unknown): boolean {
  return isDeadlock(error) || (error instanceof pg.DatabaseError && error.code === '55P03')
}

/**
 * Returns whether PostgreSQL ended the statement because of its timeout. The timeout of the client means something else:
 * PostgreSQL did not respond at all, because its own timeout is shorter.
 */
export function isTooSlow(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '57014'
}

/**
 * Returns whether a retry may help:
 * - the database cannot be reached, is shutting down, or has no connection left;
 * - a server-side timeout ended the statement (57014), its wait for a lock (55P03) or its transaction (25P03);
 * - PostgreSQL ended the transaction because it and another one waited for each other (40P01);
 * - the database is a standby that is not promoted yet and refuses to write (25006).
 */
export function isOutage(thrown: NodeJS.ErrnoException): boolean {
  if (thrown instanceof pg.DatabaseError)
    return /^(?:08|53|57P|57014|55P03|25P03|25006|40P01)/.test(thrown.code ?? '')
  return (
    ['connect', 'getaddrinfo'].includes(thrown.syscall ?? '') ||
    ['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'ETIMEDOUT', 'EPIPE'].includes(thrown.code ?? '') ||
    /timeout exceeded when trying to connect|Connection terminated|connection error and is not queryable|Query read timeout/.test(
      thrown.message,
    )
  )
}

/** Returns whether PostgreSQL refused a statement because an earlier one of its transaction had failed. */
export function isRefusedAfterFailure(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '25P02'
}
