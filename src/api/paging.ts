import { z } from 'zod'

const maxLimit = 100

/** What every list takes. The cursor is only ever one that a Link header gave. */
export const PageQuery = z.object({
  limit: z.coerce.number().int().min(1).max(maxLimit).default(30),
  cursor: z
    .string()
    .max(1000)
    .regex(/^[A-Za-z0-9_-]+$/)
    .optional(),
})

/** Which part of a list is asked for. */
export interface ListQuery {
  /** The key after which it begins; null for the beginning. */
  after: string | null
  limit: number
}

/** A part of a list, and the key after which the next one begins; null when there is none. */
export interface Page<Item> {
  items: Item[]
  next: string | null
}

/** The part that a query asks for. */
export function partOf({ limit, cursor }: z.output<typeof PageQuery>): ListQuery {
  // What decodes to no text that was ever a key begins the list somewhere: it can do no harm.
  const after = cursor === undefined ? null : Buffer.from(cursor, 'base64url').toString().replaceAll('\0', '')
  return { after, limit }
}

/** Reads one row more than is asked for, which tells whether there is a next part. */
export async function readPage<Row, Item>(
  { after, limit }: ListQuery,
  list: (part: ListQuery) => Promise<Row[]>,
  keyOf: (row: Row) => string,
  describe: (row: Row) => Item,
): Promise<Page<Item>> {
  const rows = await list({ after, limit: limit + 1 })
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  const next = rows.length > limit && last !== undefined ? keyOf(last) : null
  return { items: shown.map(describe), next }
}

/** The Link header that leads to the next part (RFC 8288). */
export function nextLink(baseUrl: string, url: string, next: string): string {
  const address = new URL(baseUrl + url)
  address.searchParams.set('cursor', Buffer.from(next).toString('base64url'))
  return `<${baseUrl}${address.pathname}${address.search}>; rel="next"`
}
