import type pg from 'pg'
import type { Config } from './config.ts'

/** The parts that every feature needs. */
export interface AppContext {
  config: Config
  db: pg.Pool
}
