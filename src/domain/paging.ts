/** A part of a list: at most `limit` rows after a key, in the order of the list. */
export interface ListPart {
  /** The key of the last row before this part. Null for the first part. */
  after: string | null
  limit: number
}

/** A page of a list. */
export interface Page<Row> {
  rows: Row[]
  /** The key after which the next page starts. Null on the last page. */
  next: string | null
}

/**
 * Reads a page of a list with at most `limit` rows. `list` gets one row more than that, to find out whether there is a next
 * page. `keyOf` returns the key after which `list` continues.
 */
export async function pageOf<Row>(
  list: (part: ListPart) => Promise<Row[]>,
  { after, limit }: ListPart,
  keyOf: (row: Row) => string,
): Promise<Page<Row>> {
  const found = await list({ after, limit: limit + 1 })
  const rows = found.slice(0, limit)
  const last = rows.at(-1)
  return { rows, next: found.length > limit && last !== undefined ? keyOf(last) : null }
}
