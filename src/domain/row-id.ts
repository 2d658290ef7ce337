import * as z from 'zod'

/** The id of a row in a URL, a form, a cursor or a command: a number that fits into PostgreSQL's bigint. */
const shape = /^\d{1,18}$/

/** The schema of an id. PostgreSQL fails for a statement with any other text. */
export const rowId = z.string().regex(shape)

/** Returns the id that a text contains. Null for any other text, which no row can have. */
export function readRowId(text: string | null | undefined): string | null {
  return shape.test(text ?? '') ? (text as string) : null
}
