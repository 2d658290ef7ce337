/** A part of a list: at most `limit` rows after a key, in the order of the list. */
export interface ListPart {
  /** Null for the beginning. */
  after: string | null
  limit: number
}
