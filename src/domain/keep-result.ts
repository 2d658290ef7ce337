/** Returns a function that makes something at its first call. A failure is not kept: the next call tries again. */
export function keepResult<T>(make: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined
  return () => {
    result ??= make().catch((error: unknown) => {
      result = undefined
      throw error
    })
    return result
  }
}
