/** A part of a list: at most `limit` rows after a key, in the order of the list. */
export interface ListPart {
  /** The key of the last row before this part. Null for the first part. */
  after: string | null
  limit: number
}
