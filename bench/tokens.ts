import type { TokenResponse } from '../src/web/oauth/token.ts'
import { anAccount } from '../test/support/actors.ts'
import { type ApplicationActor, aCode, anApplication, anAuthorization } from '../test/support/oauth-actors.ts'
import { requestText } from './load.ts'
import { type Measured, measure, ratesOf } from './measure.ts'
import { median, medianRatio } from './median.ts'
import { type Listener, type Server, startBare } from './server.ts'
import { figure, ratio, table } from './table.ts'

const rounds = 3
const acts = ['exchange', 'refresh', 'introspect', 'bearer check', 'revoke'] as const
type Act = (typeof acts)[number]
type Runs = Record<Act, Measured[]>

/**
 * Measures the token endpoints, as ratios to the baseline of `bare.ts` on the same PostgreSQL. Both servers run in
 * turn, in three rounds for each kind of request. The table has the medians. Every request has its own code or token.
 * The codes and tokens belong to 100 accounts in turn.
 */
export async function measureTokens(server: Server, folder: string, count: number): Promise<string> {
  const bare = await startBare(folder, server)
  try {
    const application = await anApplication(server.db, { scopes: ['account-profile:r'] })
    const tables: string[] = []
    for (const connections of [16, 64]) {
      const [ofSvc, ofBare] = [noRuns(), noRuns()]
      // The first round only warms up both servers. It is not counted.
      for (let round = 0; round <= rounds; round += 1) {
        const codes = await makeCodes(server, application, count)
        const load = { application, connections, codes }
        await server.db.query('checkpoint')
        await runInTurns(
          [server, load, round > 0 ? ofSvc : noRuns()],
          [bare, load, round > 0 ? ofBare : noRuns()],
        )
      }
      tables.push(compare(connections, ofSvc, ofBare))
    }
    return tables.join('\n\n')
  } finally {
    await bare.stop()
  }
}

interface Load {
  application: ApplicationActor
  connections: number
  codes: string[]
}

type Runner = readonly [server: Listener, load: Load, runs: Runs]

/** Runs each kind of request on one server and then on the other. */
async function runInTurns(...runners: Runner[]): Promise<void> {
  const states = runners.map(([server, load, runs]) => ({
    ...load,
    server,
    runs,
    pairs: [] as TokenResponse[],
  }))
  for (const act of acts) {
    for (const state of states) {
      const { server, application, connections } = state
      const requests = requestsOf(act, application, state.codes, state.pairs)
      const isIssuing = act === 'exchange' || act === 'refresh'
      const options = { connections, count: requests.length, requests, status: 200, keepBodies: isIssuing }
      const measured = await measure(server, options)
      if (isIssuing) state.pairs = measured.bodies.map((body) => JSON.parse(body) as TokenResponse)
      state.runs[act].push(measured)
    }
  }
}

function requestsOf(
  act: Act,
  application: ApplicationActor,
  codes: string[],
  pairs: TokenResponse[],
): string[] {
  const headers = { authorization: application.basic, 'content-type': 'application/x-www-form-urlencoded' }
  const post = (endpoint: string, form: Record<string, string>) =>
    requestText(`/oauth2/${endpoint}`, {
      method: 'POST',
      headers,
      body: new URLSearchParams(form).toString(),
    })
  switch (act) {
    case 'exchange':
      return codes.map((code) => post('token', { grant_type: 'authorization_code', code }))
    case 'refresh':
      return pairs.map(({ refresh_token }) => post('token', { grant_type: 'refresh_token', refresh_token }))
    case 'introspect':
      return pairs.map(({ access_token }) => post('introspect', { token: access_token }))
    case 'bearer check':
      return pairs.map(({ access_token }) =>
        requestText('/api/user', { headers: { authorization: `Bearer ${access_token}` } }),
      )
    case 'revoke':
      return pairs.map(({ access_token }) => post('revoke', { token: access_token }))
  }
}

function compare(connections: number, ofSvc: Runs, ofBare: Runs): string {
  const head = ['req/s', 'p99 ms', 'Node µs', 'PostgreSQL µs']
  return table(
    [
      `${connections} connections`,
      'ratio',
      ...head.map((title) => `svc ${title}`),
      ...head.map((title) => `bare ${title}`),
    ],
    acts.map((act) => [
      act,
      ratio(medianRatio(ratesOf(ofSvc[act]), ratesOf(ofBare[act]))),
      ...cells(ofSvc[act]),
      ...cells(ofBare[act]),
    ]),
  )
}

function cells(runs: Measured[]): string[] {
  return [
    median(ratesOf(runs)),
    median(runs.map(({ p99Ms }) => p99Ms)),
    median(runs.map(({ cpuMicros }) => cpuMicros ?? Number.NaN)),
    median(runs.map(({ postgresMicros }) => postgresMicros ?? Number.NaN)),
  ].map(figure)
}

function noRuns(): Runs {
  return Object.fromEntries(acts.map((act) => [act, [] as Measured[]])) as Runs
}

async function makeCodes({ db }: Server, application: ApplicationActor, count: number): Promise<string[]> {
  const authorizations = await Promise.all(
    Array.from({ length: 100 }, async () => anAuthorization(db, await anAccount(db), application)),
  )
  const turns = Array.from({ length: Math.ceil(count / authorizations.length) }, () => authorizations).flat()
  return Promise.all(turns.slice(0, count).map((authorization) => aCode(db, authorization)))
}
