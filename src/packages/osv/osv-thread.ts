import { serveThread } from '../../domain/threads.ts'
import { type OsvEntry, OsvError, readOsv } from './read-osv.ts'

/** What became of a file: the entries of its records, or what is wrong with it. */
export type OsvReading = { entries: OsvEntry[] } | { problem: string }

serveThread((bytes: Uint8Array): OsvReading => {
  try {
    return { entries: readOsv(bytes) }
  } catch (error) {
    if (error instanceof OsvError) return { problem: error.message }
    throw error
  }
})
