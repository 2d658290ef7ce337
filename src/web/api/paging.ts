import { z } from 'zod'
import type { ListPart } from '../../database/database.ts'

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
    .meta({
      description: 'Where to continue: the cursor of the `Link` header with rel="next"',
      example: 'YWNtZS9waHA',
    }),
})

/** A request for a part of a list, and its response. */
export interface PageCall {
  request: { query: z.output<typeof PageQuery>; url: string }
  reply: { header(name: string, value: string): unknown }
  config: { baseUrl: string }
}

/**
 * Reads the requested part of a list. `list` gets one row more than requested, to find out whether there is a next part.
 * If there is one, the response gets a Link header to it (RFC 8288).
 */
export async function readPage<Row, Item>(
  { request, reply, config: { baseUrl } }: PageCall,
  list: (part: ListPart) => Promise<Row[]>,
  keyOf: (row: Row) => string,
  describe: (row: Row) => Item,
): Promise<Item[]> {
  const { limit, cursor } = request.query
  // An invented cursor only starts the list at another place.
  const after = cursor === undefined ? null : Buffer.from(cursor, 'base64url').toString().replaceAll('\0', '')
  const rows = await list({ after, limit: limit + 1 })
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  if (rows.length > limit && last !== undefined) {
    const link = new URL(request.url, baseUrl)
    link.searchParams.set('cursor', Buffer.from(keyOf(last)).toString('base64url'))
    reply.header('link', `<${baseUrl}${link.pathname}${link.search}>; rel="next"`)
  }
  return shown.map(describe)
}
