/** Which part of a list is read: so many rows, after a key in the list's order. */
export interface ListPart {
  /** Null for the beginning. */
  after: string | null
  limit: number
}
