/** How many statements of one kind run at once: while one is being answered, the next gathers its calls. */
const maxStatements = 2
/** How many calls ride on one statement: its answer is held in memory as a whole. */
const maxCalls = 32

interface Waiting<Call, Answer> {
  call: Call
  resolve: (answer: Answer) => void
  reject: (error: unknown) => void
}

/**
 * Lets calls that come together share one statement (DESIGN §5): `askMany` answers them in their order, and who comes
 * while two statements run waits for the next. A call rides only on a statement that begins after it, so it sees all
 * that was committed before it. When a statement fails, all of its calls do.
 */
export function shareStatements<Call, Answer>(
  askMany: (calls: Call[]) => Promise<Answer[]>,
): (call: Call) => Promise<Answer> {
  const waiting: Waiting<Call, Answer>[] = []
  let running = 0
  let isGathering = false

  // What one turn of the event loop reads from the clients' sockets is asked at its end.
  function gather(): void {
    if (isGathering || running === maxStatements || waiting.length === 0) return
    isGathering = true
    setImmediate(() => {
      isGathering = false
      void run(waiting.splice(0, maxCalls))
      gather()
    })
  }

  async function run(calls: Waiting<Call, Answer>[]): Promise<void> {
    running += 1
    try {
      const answers = await askMany(calls.map(({ call }) => call))
      for (const [i, { resolve }] of calls.entries()) resolve(answers[i] as Answer)
    } catch (error) {
      for (const { reject } of calls) reject(error)
    } finally {
      running -= 1
      gather()
    }
  }

  return (call) =>
    new Promise((resolve, reject) => {
      waiting.push({ call, resolve, reject })
      gather()
    })
}

/**
 * The text of a statement for many calls, given a query for one that names the call's values `call.<column>`: a row for
 * each call, in their order, of nulls where the query finds nothing. Its values are an array for each column.
 */
export function forEachCall(columns: Record<string, string>, query: string): string {
  const names = Object.keys(columns).join(', ')
  // In subqueries, so that the planner cannot see how long the arrays are: it would plan anew for every length.
  const arrays = Object.values(columns).map((type, i) => `(select $${i + 1}::${type}[])`)
  // The limit keeps each call's query by itself: joined with all calls at once, whole tables would be read.
  return `select answer.*
            from unnest(${arrays.join(', ')}) with ordinality as call (${names}, n)
            left join lateral (${query} limit 1) as answer on true
           order by call.n`
}
