import * as z from 'zod'
import { type ListPart, pageOf } from '../../domain/paging.ts'
import { nextLink } from '../next-link.ts'

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

/** Reads the requested part of a list. If there is a next part, the response gets a Link header to it. */
export async function readPage<Row, Item>(
  { request, reply, config: { baseUrl } }: PageCall,
  list: (part: ListPart) => Promise<Row[]>,
  keyOf: (row: Row) => string,
  describe: (row: Row) => Item,
): Promise<Item[]> {
  const { limit, cursor } = request.query
  // An invented cursor only starts the list at another place.
  const after = cursor === undefined ? null : Buffer.from(cursor, 'base64url').toString().replaceAll('\0', '')
  const { rows, next } = await pageOf(list, { after, limit }, keyOf)
  if (next !== null) {
    const value = Buffer.from(next).toString('base64url')
    reply.header('link', nextLink(baseUrl, request.url, 'cursor', value))
  }
  return rows.map(describe)
}
