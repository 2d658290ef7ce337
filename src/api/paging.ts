import { z } from 'zod'

const maxLimit = 100

/** The query of every list. Clients take the cursor from a Link header. */
export const PageQuery = z.object({
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(maxLimit)
    .default(30)
    .meta({ description: 'How many items to return', example: 30 }),
  cursor: z
    .string()
    .max(1000)
    .regex(/^[A-Za-z0-9_-]+$/)
    .optional()
    .meta({ description: 'Where to continue: the cursor of the `Link` header with rel="next"' }),
})

/** Which part of a list is requested. */
export interface ListQuery {
  /** The key after which the list begins. Null for the beginning. */
  after: string | null
  limit: number
}

/** A part of a list, and the key after which the next part begins. Null on the last part. */
export interface ListPage<Item> {
  items: Item[]
  next: string | null
}

/** The part that a query requests. */
export function partOf({ limit, cursor }: z.output<typeof PageQuery>): ListQuery {
  // An invented cursor only starts the list at another place.
  const after = cursor === undefined ? null : Buffer.from(cursor, 'base64url').toString().replaceAll('\0', '')
  return { after, limit }
}

/** Reads one row more than requested, to find out whether there is a next part. */
export async function readPage<Row, Item>(
  { after, limit }: ListQuery,
  list: (part: ListQuery) => Promise<Row[]>,
  keyOf: (row: Row) => string,
  describe: (row: Row) => Item,
): Promise<ListPage<Item>> {
  const rows = await list({ after, limit: limit + 1 })
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  const next = rows.length > limit && last !== undefined ? keyOf(last) : null
  return { items: shown.map(describe), next }
}

/** Returns the headers of a page: a Link to the next part when there is one (RFC 8288). */
export function pageHeaders(baseUrl: string, url: string, next: string | null): Record<string, string> {
  if (next === null) return {}
  const link = new URL(url, baseUrl)
  link.searchParams.set('cursor', Buffer.from(next).toString('base64url'))
  return { link: `<${baseUrl}${link.pathname}${link.search}>; rel="next"` }
}
