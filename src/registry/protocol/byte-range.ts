/** Part of a body: the first and the last byte, both included. */
export interface ByteRange {
  start: number
  end: number
}

/**
 * What a Range header asks of a body of `size` bytes (RFC 9110 §14.2). Null: all of it, for a header that is absent,
 * of another unit, malformed or of several ranges may be ignored. `unsatisfiable`: the range lies beyond the end.
 */
export function readRange(header: string | undefined, size: number): ByteRange | null | 'unsatisfiable' {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? []
  if (first === '' && last === '') return null
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size - 1 }
  }
  const start = Number(first)
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (last !== '' && Number(last) < start) return null
  return start >= size ? 'unsatisfiable' : { start, end }
}
