import pg from 'pg'
import { isOutage } from './database.ts'

/** How many statements of one kind run at once: while they run, the next one gathers its calls. */
const maxStatements = 2
/** How many calls share one statement: its rows are held in memory together. */
const maxCalls = 32

interface Waiting<Call, Answer> {
  call: Call
  resolve: (answer: Answer) => void
  reject: (error: unknown) => void
}

/**
 * Lets simultaneous calls share one statement (DESIGN §5). `askMany` returns results in the order of the calls. A call that
 * arrives while two statements run waits for the next one. Its statement begins after the call, so it sees everything
 * that was committed before. When the database refuses a statement, it has changed nothing, and each of its calls is
 * repeated alone: so only the call that cannot succeed fails. After a lost connection nobody knows what was
 * committed, and all calls of the statement fail.
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
      if (calls.length === 1 || !isRefusal(error)) for (const { reject } of calls) reject(error)
      else for (const call of calls) await runAlone(call)
    } finally {
      running -= 1
      gather()
    }
  }

  async function runAlone({ call, resolve, reject }: Waiting<Call, Answer>): Promise<void> {
    try {
      const [answer] = await askMany([call])
      resolve(answer as Answer)
    } catch (error) {
      reject(error)
    }
  }

  return (call) =>
    new Promise((resolve, reject) => {
      waiting.push({ call, resolve, reject })
      gather()
    })
}

/** Returns whether the database rolled the statement back for a reason in the statement. A timeout would only repeat. */
function isRefusal(error: unknown): boolean {
  return error instanceof pg.DatabaseError && !isOutage(error) && error.code !== '57014'
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
