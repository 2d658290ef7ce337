import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { measureArchives } from './archives.ts'
import { measureBaselinePulls } from './baseline-pulls.ts'
import { measureComposer } from './composer.ts'
import { measureExpensive } from './expensive.ts'
import { measureLarge } from './large.ts'
import { measureMemory } from './memory.ts'
import { measureProjects } from './projects.ts'
import { measurePulls } from './pulls.ts'
import { measurePushes } from './pushes.ts'
import { measureRolling } from './rolling.ts'
import { seedCrowd } from './seed.ts'
import { type Server, startServer } from './server.ts'
import { measureSources } from './sources.ts'
import { measureTasks } from './tasks.ts'
import { measureTokens } from './tokens.ts'
import { measureUpgrade } from './upgrade.ts'
import { measureUpstream } from './upstream.ts'

/**
 * `npm run bench` measures the built server on this machine and prints Markdown tables. `--quick` sends fewer requests.
 * With names of parts (pulls, composer, tokens, pushes, upstream, memory, expensive, rolling) it runs only those parts. The
 * parts `large`, `upgrade`, `sources`, `tasks` and `projects` run only when they are named.
 */
const words = process.argv.slice(2)
/** Parts that run only when they are named. */
const lonely = ['large', 'upgrade', 'sources', 'tasks', 'projects']
const isQuick = words.includes('--quick')
const parts: Record<string, (server: Server, folder: string) => Promise<string>> = {
  pulls: async (server, folder) =>
    [
      await measurePulls(server, folder, isQuick ? 2000 : 15_000),
      await measureBaselinePulls(server, folder, isQuick ? 1000 : 15_000),
      await measureArchives(server, folder, isQuick ? 500 : 3000),
    ].join('\n\n'),
  composer: (server, folder) => measureComposer(server, folder, isQuick ? 3 : 15),
  tokens: (server, folder) => measureTokens(server, folder, isQuick ? 1000 : 5000),
  pushes: (server) => measurePushes(server, isQuick ? 3 : 11),
  upstream: (server, folder) => measureUpstream(server, folder, isQuick ? 3 : 15),
  memory: (server, folder) => measureMemory(server, folder),
  expensive: (server) => measureExpensive(server, isQuick ? 500 : 2000),
  rolling: (server, folder) => measureRolling(server, folder, isQuick ? 1 : 5),
}
const chosen = Object.entries(parts).filter(
  ([name]) => words.includes(name) || !words.some((word) => word in parts || lonely.includes(word)),
)

const folder = await mkdtemp(join(tmpdir(), 'svc-bench-'))
try {
  const size = (name: string, usual: number) =>
    Number(
      words.find((word) => word.startsWith(`--${name}=`))?.split('=')[1] ?? (isQuick ? usual / 100 : usual),
    )
  // These parts take long, so they run only when they are named. They start their own empty databases.
  if (words.includes('upgrade')) {
    const sizes = {
      packages: size('packages', 10_000),
      versions: size('versions', 100_000),
      repositories: size('repositories', 10_000),
      tokenPairs: size('token-pairs', 2_000_000),
    }
    const upgradeFolder = join(folder, 'upgrade')
    await mkdir(upgradeFolder)
    process.stdout.write(`${await measureUpgrade(upgradeFolder, sizes)}\n\n`)
  }
  if (words.includes('tasks')) {
    const tasksFolder = join(folder, 'tasks')
    await mkdir(tasksFolder)
    process.stdout.write(`${await measureTasks(tasksFolder)}\n\n`)
  }
  if (words.includes('projects')) {
    const projectsFolder = join(folder, 'projects')
    await mkdir(projectsFolder)
    const server = await startServer(projectsFolder)
    try {
      process.stdout.write(`${await measureProjects(server, isQuick ? 5 : 50)}\n\n`)
    } finally {
      await server.stop()
    }
  }
  if (words.includes('sources')) {
    const sourcesFolder = join(folder, 'sources')
    await mkdir(sourcesFolder)
    const repository = words.find((word) => word.startsWith('--repository='))?.replace('--repository=', '')
    process.stdout.write(
      `${await measureSources(sourcesFolder, repository ?? null, isQuick ? 500 : 3000)}\n\n`,
    )
  }
  if (words.includes('large')) {
    const sizes = {
      packages: size('packages', 100_000),
      versions: size('versions', 1_000_000),
      repositories: size('repositories', 10_000),
      tokenPairs: size('token-pairs', 10_000_000),
    }
    const largeFolder = join(folder, 'large')
    await mkdir(largeFolder)
    const tables = await measureLarge(largeFolder, sizes, isQuick ? 50 : 200)
    process.stdout.write(`${tables}\n\n`)
  }
  if (chosen.length > 0) await measureParts()
} finally {
  await rm(folder, { recursive: true, force: true, maxRetries: 5 })
}

async function measureParts(): Promise<void> {
  const server = await startServer(folder)
  try {
    await seedCrowd(server.db)
    await server.db.query('vacuum analyze')
    for (const [, run] of chosen) process.stdout.write(`${await run(server, folder)}\n\n`)
  } finally {
    await server.stop()
  }
}
