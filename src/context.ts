import type pg from 'pg'
import type { Config } from './config.ts'

/** What every feature is built from. */
export interface AppContext {
  config: Config
  db: pg.Pool
}
