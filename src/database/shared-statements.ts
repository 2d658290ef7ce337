import { isDeadlock, isOutage } from './errors.ts'

/**
 * The default number of statements of one kind that run at once. While they run, new calls are gathered for the next
 * one.
 */
const defaultStatements = 2
/** How many calls share one statement. All rows of the statement are in memory together. */
const maxCalls = 32

interface Waiting<Call, Result> {
  call: Call
  /** The promise of all callers that share this call. */
  result: Promise<Result>
  resolve: (result: Result) => void
  reject: (error: unknown) => void
}

/** The calls of one statement that has not started yet. */
interface Batch<Call, Result> {
  calls: Waiting<Call, Result>[]
  size: number
  /**
   * Each batch has its own map. When V8 copies a long-lived map to a new table, the old table keeps its entries until the
   * next full garbage collection.
   */
  byKey: Map<string, Waiting<Call, Result>>
}

/**
 * Lets simultaneous calls share one statement (CONTRACT 5.5). `runMany` returns results in the order of the calls. A
 * call that arrives while `maxStatements` run waits for the next one. The next statement begins after the call, so it
 * sees everything that was committed before.
 * When a statement fails, nothing was changed. Each of its calls is then repeated alone, so that only the calls that
 * cannot succeed fail. After a lost connection nobody knows what was committed, so all calls of the statement fail.
 * Use `maxStatements: 1` for a transaction of many statements. It costs less when more calls share it.
 * With `sizeOf`, the calls of a statement are at most `maxSize` together. A larger call has its own statement.
 * With `keyOf`, calls of the same key that wait for the same statement share one call and its result. Use it only for
 * statements that read, and for results that nobody changes.
 */
export function shareStatements<Call, Result>(
  runMany: (calls: Call[]) => Promise<Result[]>,
  {
    maxStatements = defaultStatements,
    maxSize = Number.POSITIVE_INFINITY,
    sizeOf = () => 0,
    keyOf,
  }: {
    maxStatements?: number
    maxSize?: number
    sizeOf?: (call: Call) => number
    keyOf?: (call: Call) => string
  } = {},
): (call: Call) => Promise<Result> {
  const waiting: Batch<Call, Result>[] = []
  let running = 0
  let isGathering = false

  // Calls that arrive in two turns of the event loop share a statement. The second turn takes microseconds, because it
  // does not wait for sockets. It saves a quarter of the statements of 16 busy clients.
  function gather(): void {
    if (isGathering || running === maxStatements || waiting.length === 0) return
    isGathering = true
    setImmediate(() => setImmediate(start))
  }

  function start(): void {
    isGathering = false
    const batch = waiting.shift()
    if (batch) void run(batch.calls)
    gather()
  }

  async function run(calls: Waiting<Call, Result>[]): Promise<void> {
    running += 1
    try {
      const results = await runMany(calls.map(({ call }) => call))
      for (const [i, { resolve }] of calls.entries()) resolve(results[i] as Result)
    } catch (error) {
      if (calls.length === 1 || !isRefusal(error)) for (const { reject } of calls) reject(error)
      else for (const call of calls) await runAlone(call)
    } finally {
      running -= 1
      gather()
    }
  }

  async function runAlone({ call, resolve, reject }: Waiting<Call, Result>): Promise<void> {
    try {
      const [result] = await runMany([call])
      resolve(result as Result)
    } catch (error) {
      reject(error)
    }
  }

  /** Returns the batch for a new call of this size. */
  function lastBatch(size: number): Batch<Call, Result> {
    const last = waiting.at(-1)
    if (last && last.calls.length < maxCalls && last.size + size <= maxSize) return last
    const added = { calls: [], size: 0, byKey: new Map() }
    waiting.push(added)
    return added
  }

  return (call) => {
    const key = keyOf?.(call)
    const same = key === undefined ? undefined : waiting.at(-1)?.byKey.get(key)
    if (same) return same.result
    const size = sizeOf(call)
    const batch = lastBatch(size)
    batch.size += size
    const { calls, byKey } = batch
    const settle = {} as Pick<Waiting<Call, Result>, 'resolve' | 'reject'>
    const result = new Promise<Result>((resolve, reject) => Object.assign(settle, { resolve, reject }))
    const added = { call, result, ...settle }
    calls.push(added)
    if (key !== undefined) byKey.set(key, added)
    gather()
    return result
  }
}

/**
 * Returns whether a call may succeed alone: the database refused the statement, the statement lost to another transaction
 * in a deadlock, or its values could not be sent. A retry after a timeout would time out again.
 */
function isRefusal(error: unknown): boolean {
  return error instanceof Error && (!isOutage(error) || isDeadlock(error))
}

/**
 * Returns a statement for many calls, with an array for each column. `query` is for one call and reads its values as
 * `call.<column>`. The statement returns a row for each call, in the order of the calls. The row has nulls if the query
 * finds nothing. The arrays are the parameters from `first` on. `join` adds a table with one row for each call, and
 * `select` its columns.
 */
export function forEachCall(
  columns: Record<string, string>,
  query: string,
  { first = 1, join = '', select = '' } = {},
): string {
  const names = Object.keys(columns).join(', ')
  // Subqueries hide the length of the arrays from the planner. Otherwise the planner would create a plan for every
  // length.
  const arrays = Object.values(columns).map((type, i) => `(select $${first + i}::${type}[])`)
  // The limit makes the planner run the query for each call. A join with all calls would read whole tables.
  return `select ${select && `${select}, `}result.*
            from unnest(${arrays.join(', ')}) with ordinality as call (${names}, n) ${join}
            left join lateral (${query} limit 1) as result on true
           order by call.n`
}

/** The type bytea in PostgreSQL's binary format. */
const byteaOid = 17

/**
 * Returns a parameter of the type `bytea[]` in PostgreSQL's binary format. As text, each byte would be two hexadecimal
 * digits, which takes both sides three times as long to write and read.
 */
export function byteaArray(elements: readonly Uint8Array[]): Buffer {
  const lengths = elements.reduce((sum, { length }) => sum + 4 + length, 0)
  const array = Buffer.allocUnsafe(20 + lengths)
  // One dimension, no nulls, the type, the number of elements, and the index of the first one.
  let end = [1, 0, byteaOid, elements.length, 1].reduce((at, field) => array.writeInt32BE(field, at), 0)
  for (const element of elements) {
    end = array.writeInt32BE(element.length, end)
    array.set(element, end)
    end += element.length
  }
  return array
}
