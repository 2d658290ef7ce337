import { randomBytes } from 'node:crypto'
import { get } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { craftZip } from '../test/support/zip.ts'
import { requestText, startLoadProcess } from './load.ts'
import { type Measured, measure, ratesOf } from './measure.ts'
import { inTurn, median, medianRatio } from './median.ts'
import { aManifest, aRegistry, growPackage } from './seed.ts'
import { type Server, startBare } from './server.ts'
import { figure, ratio, table } from './table.ts'

const name = 'bench/measured'
const rounds = 15

/**
 * Measures pulls with a token, as ratios to the baseline of `bare.ts` on the same PostgreSQL: a document, the same
 * unchanged, and an archive of 1 MB. Both servers send the same bytes. They run in turn, in short rounds. The table has
 * the medians; the ratio is the median of the ratios of the rounds.
 */
export async function measureBaselinePulls(server: Server, folder: string, count: number): Promise<string> {
  const { path, authorization, repository } = await aRegistry(server.db, 'private')
  await growPackage(server.db, repository.id, { name, to: 20, baseUrl: server.baseUrl })
  const dist = await publishMegabyte(server, path, authorization)
  const document = `${path}p2/${name}.json`
  const gzip = { authorization, 'accept-encoding': 'gzip' }
  const bare = await startBare(folder, server)
  const generator = startLoadProcess()
  try {
    const copies = await Promise.all([document, dist].map((one) => copyTo(bare.port, server, one, gzip)))
    const [lastModified = ''] = copies
    const pulls = [
      { title: 'document', path: document, headers: gzip, status: 200, count },
      {
        title: 'document, 304',
        path: document,
        headers: { ...gzip, 'if-modified-since': lastModified },
        status: 304,
        count,
      },
      { title: 'archive of 1 MB', path: dist, headers: { authorization }, status: 200, count: count / 5 },
    ]
    const rows: string[][] = []
    for (const connections of [16, 64]) {
      for (const pull of pulls) {
        const runs: [Measured[], Measured[]] = [[], []]
        // The first round only warms up both servers. It is not counted.
        for (let round = 0; round <= rounds; round += 1) {
          const count = round === 0 ? pull.count : pull.count / 5
          for (const [side, listener] of inTurn([...[server, bare].entries()], round)) {
            const url = side === 0 ? pull.path : `/files${pull.path}`
            const requests = [requestText(url, { headers: pull.headers })]
            const load = { connections, status: pull.status, requests, count }
            const measured = await measure(listener, load, generator.run)
            if (round > 0) runs[side]?.push(measured)
          }
        }
        rows.push([`${pull.title}, ${connections} connections`, ...cellsOf(...runs)])
      }
    }
    return table(['pull', 'ratio', 'req/s', 'of the baseline', 'p99 ms', 'of the baseline'], rows)
  } finally {
    generator.stop()
    await bare.stop()
  }
}

function cellsOf(ofSvc: Measured[], ofBare: Measured[]): string[] {
  const rates = [ofSvc, ofBare].map((runs) => median(ratesOf(runs)))
  const slowest = [ofSvc, ofBare].map((runs) => median(runs.map(({ p99Ms }) => p99Ms)))
  return [ratio(medianRatio(ratesOf(ofSvc), ratesOf(ofBare))), ...rates.map(figure), ...slowest.map(figure)]
}

/** Publishes a version with an archive of 1 MB that does not compress. Returns the path of the archive. */
async function publishMegabyte(server: Server, path: string, authorization: string): Promise<string> {
  const noise = randomBytes(1_000_000)
  const archive = craftZip([
    { name: 'composer.json', content: JSON.stringify(aManifest(name)) },
    { name: 'noise.bin', content: noise, raw: noise, method: 0 },
  ])
  const response = await fetch(`${server.baseUrl}${path}upload/${name}/2.0.0`, {
    method: 'PUT',
    headers: { authorization },
    body: new Uint8Array(archive),
  })
  if (response.status !== 201) throw new Error(await response.text())
  return new URL(((await response.json()) as { url: string }).url).pathname
}

/** Gives the baseline the bytes that svc sends for a path. Returns their Last-Modified. */
async function copyTo(
  port: number,
  server: Server,
  path: string,
  headers: Record<string, string>,
): Promise<string> {
  // Not fetch, which would decode the content.
  const [bytes, received] = await new Promise<[Buffer, Record<string, string | string[] | undefined>]>(
    (resolve, reject) => {
      get(server.baseUrl + path, { headers }, (response) => {
        buffer(response).then((all) => resolve([all, response.headers]), reject)
      }).on('error', reject)
    },
  )
  const lastModified = String(received['last-modified'] ?? new Date().toUTCString())
  const encoding = received['content-encoding']
  const response = await fetch(`http://127.0.0.1:${port}/files${path}`, {
    method: 'PUT',
    headers: {
      authorization: headers['authorization'] ?? '',
      'content-type': 'application/octet-stream',
      'last-modified': lastModified,
      ...(typeof encoding === 'string' && { 'content-encoding': encoding }),
    },
    body: new Uint8Array(bytes),
  })
  if (response.status !== 200) throw new Error(await response.text())
  return lastModified
}
