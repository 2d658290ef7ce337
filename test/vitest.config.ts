import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { builtFiles, useBuiltSources } from './support/built-sources.ts'
import { rareOptimization } from './support/rare-optimization.ts'
import { summaryReporter } from './support/summary-reporter.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

const settings = {
  pool: 'forks' as const,
  // Long enough for a machine that runs ten times as much. Only a test that hangs reaches them.
  testTimeout: 240_000,
  hookTimeout: 240_000,
  expect: { poll: { timeout: 60_000 } },
  server: { deps: { external: [builtFiles] } },
}

/** These replace functions of the whole process. A spy does, too, but its test restores the function. */
const replacesFunctions = /\bvi\.(?:mock|doMock|useFakeTimers|setSystemTime|stub\w+)\(/
/** These measure their own process, and would measure the garbage of the files before them, too. */
const measuresItself =
  /\bschedstat\b|\bmemoryUsage\(|\bcpuUsage\b|\beventLoopUtilization\b|\bmonitorEventLoopDelay\b/
/** Tests that only run programs load few modules themselves. */
const runsPrograms = /support\/(?:program|servers)\.ts'/
const loadsServer = /\buse(?:Listening)?App\(/
/** Most of their commands run in the process of the test. */
const runsCommands = /\b(?:useCommands|runCommand)\(/

/**
 * Tests that run one after another in the same processes. A process loads the modules of svc once: that takes longer
 * than most of these files. The modules have no state that a file could leave to the next one.
 */
const together = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  .map((name) => `test/${name}`)
  .filter((path) => path.endsWith('.test.ts') && fitsWithOthers(readFileSync(join(root, path), 'utf8')))

function fitsWithOthers(test: string): boolean {
  if ([replacesFunctions, measuresItself].some((kind) => kind.test(test))) return false
  return [loadsServer, runsCommands].some((kind) => kind.test(test)) || !runsPrograms.test(test)
}

/** A larger heap is collected less often. Threads that help to collect take more from the other processes than they save. */
const flags = [
  ...rareOptimization,
  '--min-semi-space-size=64',
  '--max-semi-space-size=64',
  '--initial-old-space-size=512',
  '--single-threaded-gc',
]

const plugins = [useBuiltSources(root)]

/** The files that take longest. Some are small, because they wait for servers, browsers or limits. */
const longest =
  /\/(?:tour|backup|command-line|slow-requests|object-storage|stop|operating-documents|slow-readers)\.test\.ts$/

/** Starts the longest files of each project first, so that no process waits for one of them at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => longest.test(moduleId)
    const sorted = await super.sort(files)
    return [...new Set(sorted.map(({ project }) => project))].flatMap((project) => {
      const own = sorted.filter((file) => file.project === project)
      return [...own.filter(isLong), ...own.filter((file) => !isLong(file))]
    })
  }
}

export default defineConfig({
  root,
  plugins,
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    reporters: ['default', summaryReporter()],
    // A process waits for servers and browsers much of the time, so there are two more than two cores need.
    maxWorkers: Math.max(4, availableParallelism()),
    sequence: { sequencer: LongestFirst },
    // They start in the order of their names: the long tests first, so that no process is idle at the end.
    projects: [
      {
        root,
        plugins,
        test: { ...settings, name: 'alone', include: ['test/**/*.test.ts'], exclude: together },
      },
      {
        root,
        plugins,
        test: { ...settings, name: 'together', include: together, isolate: false, execArgv: flags },
      },
    ],
  },
})
