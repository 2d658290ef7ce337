import { randomBytes } from 'node:crypto'
import { craftZip } from '../test/support/zip.ts'
import { memoryGrowth, memoryMiB } from './cpu.ts'
import { aManifest, aRegistry } from './seed.ts'
import type { Server } from './server.ts'
import { figure, table } from './table.ts'

const name = 'bench/large'
const megabytes = 100

/** How much the server's memory grows while an archive of 100 MB goes in, and out. */
export async function measureMemory(server: Server): Promise<string> {
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
    const answer = await fetch(`${registry}upload/${name}/1.0.0`, { method: 'PUT', headers, body })
    if (answer.status !== 201) throw new Error(await answer.text())
    dist = ((await answer.json()) as { url: string }).url
  }

  async function download(): Promise<void> {
    const answer = await fetch(dist, { headers })
    if (answer.status !== 200) throw new Error(await answer.text())
    for await (const chunk of answer.body ?? []) void chunk
  }

  const rows: string[][] = []
  for (const [title, work] of [
    ['in', upload],
    ['out', download],
  ] as const) {
    const before = memoryMiB(server.pid)
    const start = performance.now()
    const growth = await memoryGrowth(server.pid, work())
    const rate = megabytes / ((performance.now() - start) / 1000)
    rows.push([
      `${megabytes} MB ${title}`,
      ...[before, growth, rate].map((value) => (value === null ? '?' : figure(value))),
    ])
  }
  return table(['archive', 'MiB before', 'MiB more', 'MB/s'], rows)
}
