import type { FastifyBaseLogger } from 'fastify'
import type pg from 'pg'
import { openSidePool } from '../../database/database.ts'

/** The pools of a server beside its main one. Each is for one kind of work, which can then delay only itself. */
export interface ServerPools {
  /**
   * For pulls and for the token endpoints. Two connections stay open, so that the first request after a pause neither
   * connects nor plans its statement.
   */
  pull: pg.Pool
  /** For publishing and changing packages, which may wait long for the lock of a package. */
  change: pg.Pool
  /**
   * For searches, which read up to thousands of packages each. Each connection plans a statement once: otherwise
   * PostgreSQL would plan each search of a small repository again, because most packages are in large ones.
   */
  search: pg.Pool
  /** For counting downloads. */
  count: pg.Pool
}

/** Opens the side pools of a server on the database of its main pool. The caller closes them. */
export function openServerPools(db: pg.Pool, log: FastifyBaseLogger): ServerPools {
  const noteBroken = (error: Error) => log.warn({ err: error }, 'a database connection broke')
  return {
    pull: openSidePool(db, { max: 8, min: 2, plansOnce: true }, noteBroken),
    change: openSidePool(db, { max: 5 }, noteBroken),
    search: openSidePool(db, { max: 2, plansOnce: true }, noteBroken),
    count: openSidePool(db, { max: 1 }, noteBroken),
  }
}
