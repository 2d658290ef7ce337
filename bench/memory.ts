import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../test/support/program.ts'
import { craftZip } from '../test/support/zip.ts'
import { memoryGrowth, memoryMiB } from './cpu.ts'
import { startNginx } from './nginx.ts'
import { aManifest, aRegistry } from './seed.ts'
import type { Server } from './server.ts'
import { figure, ratio, table } from './table.ts'

const name = 'bench/large'
const megabytes = 100
const rounds = 7
const run = promisify(execFile)

/** Measures the server's memory and the transfer rate during an upload and a download of an archive of 100 MB. */
export async function measureMemory(server: Server, folder: string): Promise<string> {
  const { path, authorization } = await aRegistry(server.db, 'private')
  const noise = randomBytes(megabytes * 1e6)
  const archive = craftZip([
    { name: 'composer.json', content: JSON.stringify(aManifest(name)) },
    { name: 'noise.bin', content: noise, raw: noise, method: 0 },
  ])
  const body = new Uint8Array(archive)
  const registry = server.baseUrl + path
  const headers = { authorization }
  let dist = ''

  async function upload(): Promise<void> {
    const response = await fetch(`${registry}upload/${name}/1.0.0`, { method: 'PUT', headers, body })
    if (response.status !== 201) throw new Error(await response.text())
    dist = ((await response.json()) as { url: string }).url
  }

  async function download(url: string): Promise<void> {
    await run('curl', ['-sf', '-o', '/dev/null', '-H', `authorization: ${authorization}`, url])
  }

  const port = await freePort()
  const file = { path: 'archive.zip', bytes: archive, lastModified: new Date() }
  const nginx = await startNginx(join(folder, 'large'), [file], port)
  try {
    const into = await watch(server.pid, upload)
    const out: Watched[] = []
    const beside: Watched[] = []
    for (let round = 0; round < rounds; round += 1) {
      out.push(await watch(server.pid, () => download(dist)))
      if (nginx) beside.push(await watch(nginx.pid, () => download(`http://127.0.0.1:${port}/${file.path}`)))
    }
    const [ofSvc, ofNginx] = [out, beside].map(summary)
    const rows = [
      [`${megabytes} MB in`, ...cells(into), ''],
      [`${megabytes} MB out`, ...cells(ofSvc), ofSvc && ofNginx ? ratio(ofSvc.rate / ofNginx.rate) : ''],
      ...(ofNginx ? [[`${megabytes} MB out, nginx`, ...cells(ofNginx), ratio(1)]] : []),
    ]
    return table(['archive', 'MiB before', 'MiB more', 'MB/s', 'of nginx'], rows)
  } finally {
    await nginx?.stop()
  }
}

interface Watched {
  before: number | null
  growth: number | null
  /** The transfer rate, in megabytes a second. */
  rate: number
}

async function watch(pid: number, work: () => Promise<void>): Promise<Watched> {
  const before = memoryMiB(pid)
  const start = performance.now()
  const growth = await memoryGrowth(pid, work())
  return { before, growth, rate: megabytes / ((performance.now() - start) / 1000) }
}

/** Returns the largest growth and the median rate of several runs. Null without runs. */
function summary(watched: Watched[]): Watched | null {
  const [first] = watched
  if (!first) return null
  const rates = watched.map(({ rate }) => rate).toSorted((a, b) => a - b)
  const growth =
    Math.max(...watched.map((one) => (one.before ?? 0) + (one.growth ?? 0))) - (first.before ?? 0)
  return {
    before: first.before,
    growth: first.growth === null ? null : growth,
    rate: rates[rates.length >> 1] ?? 0,
  }
}

function cells(watched: Watched | null | undefined): string[] {
  const { before, growth, rate } = watched ?? {}
  return [before, growth, rate].map((value) => (value == null ? '?' : figure(value)))
}
