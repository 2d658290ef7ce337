import type pg from 'pg'
import { openDatabase } from './database.ts'

/**
 * Opens a small pool on the database of another pool, for work that must not take connections from requests: when all
 * its connections are busy, only that work waits. The caller ends it.
 */
export function openSidePool(main: pg.Pool, max: number, onError: (error: Error) => void): pg.Pool {
  const { options } = main
  // The password is not enumerable in pg, so that logs do not show it. A spread would lose it.
  return openDatabase({ ...options, password: options.password, max, min: 0 }, onError)
}
