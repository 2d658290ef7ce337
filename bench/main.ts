import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { measureComposer } from './composer.ts'
import { measureMemory } from './memory.ts'
import { measurePulls } from './pulls.ts'
import { measurePushes } from './pushes.ts'
import { seedCrowd } from './seed.ts'
import { type Server, startServer } from './server.ts'
import { measureTokens } from './tokens.ts'

/**
 * `npm run bench`: measures the built server on this machine and prints Markdown tables. `--quick` takes fewer
 * requests; names of parts (pulls, composer, tokens, pushes, memory) leave the others out.
 */
const words = process.argv.slice(2)
const isQuick = words.includes('--quick')
const parts: Record<string, (server: Server, folder: string) => Promise<string>> = {
  pulls: (server, folder) => measurePulls(server, folder, isQuick ? 2000 : 15_000),
  composer: (server, folder) => measureComposer(server, folder, isQuick ? 3 : 7),
  tokens: (server) => measureTokens(server, isQuick ? 1000 : 5000),
  pushes: (server) => measurePushes(server, isQuick ? 3 : 11),
  memory: (server, folder) => measureMemory(server, folder),
}
const chosen = Object.entries(parts).filter(
  ([name]) => words.includes(name) || !words.some((word) => word in parts),
)

const folder = await mkdtemp(join(tmpdir(), 'svc-bench-'))
try {
  const server = await startServer(folder)
  try {
    await seedCrowd(server.db)
    await server.db.query('vacuum analyze')
    for (const [, run] of chosen) process.stdout.write(`${await run(server, folder)}\n\n`)
  } finally {
    await server.stop()
  }
} finally {
  await rm(folder, { recursive: true, force: true, maxRetries: 5 })
}
