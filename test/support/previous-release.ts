import { execFile } from 'node:child_process'
import { readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))
/** The owner of the clone may be another user than that of the tests. */
const git = (...words: string[]) =>
  run('git', ['-C', root, '-c', 'safe.directory=*', ...words], {
    encoding: 'buffer',
    maxBuffer: 2 ** 28,
    // A remote that asks for a password, or that does not respond, counts as one without the commit.
    env: { ...process.env, GIT_TERMINAL_PROMPT: '0' },
    timeout: 60_000,
  })

/** The previous release: its whole repository, built. */
export interface PreviousRelease {
  /** Its command, like `program`. */
  program: string
  /** Imports one of its modules, such as `bench/seed.ts`. */
  load: <Module>(path: string) => Promise<Module>
}

/** Returns the commit of the previous release, which test/previous-release.txt names. */
export async function previousCommit(): Promise<string> {
  return (await readFile(join(root, 'test/previous-release.txt'), 'utf8')).trim()
}

/** Returns whether this clone has the previous release. */
export async function hasPreviousRelease(): Promise<boolean> {
  return hasCommit(await previousCommit())
}

/** Returns whether this clone has a commit. A shallow clone gets it from its remote. A copy without git has none. */
export async function hasCommit(commit: string): Promise<boolean> {
  const isHere = () => git('cat-file', '-e', `${commit}^{tree}`).then(yes, no)
  if (await isHere()) return true
  await git('fetch', '--quiet', '--depth=1', '--no-tags', 'origin', commit).catch(no)
  return isHere()
}

const yes = () => true
const no = () => false

/** Unpacks and builds the previous release in an empty folder. Throws if this clone lacks its commit. */
export async function unpackPreviousRelease(folder: string): Promise<PreviousRelease> {
  const commit = await previousCommit()
  if (!(await hasPreviousRelease()))
    throw new Error(`This clone lacks the previous release, ${commit}. Run: git fetch --unshallow`)
  await unpackCommit(commit, folder)
  const installed = new Set(await packagesOf(root))
  if ((await packagesOf(folder)).every((name) => installed.has(name)))
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  else
    await run('npm', ['ci', '--prefer-offline', '--no-fund', '--no-audit'], { cwd: folder, timeout: 200_000 })
  await run(process.execPath, [join(folder, 'bin/build.js')])
  return {
    program: join(folder, 'bin/svc.js'),
    load: (path) => import(/* @vite-ignore */ pathToFileURL(join(folder, path)).href),
  }
}

/** Returns the packages of a package-lock.json, each with its place and version. */
async function packagesOf(folder: string): Promise<string[]> {
  const { packages } = JSON.parse(await readFile(join(folder, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version?: string }>
  }
  return Object.entries(packages)
    .filter(([place]) => place !== '')
    .map(([place, { version }]) => `${place} ${version}`)
}

/** Returns whether this clone has all commits. */
export async function hasWholeHistory(): Promise<boolean> {
  const shallow = await git('rev-parse', '--is-shallow-repository').catch(() => null)
  return shallow?.stdout.toString().trim() === 'false'
}

/** Lists the texts that files below a path have had, of those that were changed after a commit. */
export async function listChangedTexts(path: string): Promise<{ name: string; bytes: Buffer }[]> {
  const words = ['--raw', '--no-renames', '--abbrev=40', '--diff-filter=AM', '--format=']
  const { stdout } = await git('log', ...words, '--', path)
  const texts = Array.from(
    stdout.toString().matchAll(/^:\S+ \S+ \S+ (\w+) \w\t(.*)$/gm),
    ([, id = '', name = '']) => ({ id, name }),
  )
  const changed = texts.filter((text) => texts.some(({ id, name }) => name === text.name && id !== text.id))
  return Promise.all(
    changed.map(async ({ id, name }) => ({ name, bytes: (await git('cat-file', 'blob', id)).stdout })),
  )
}

/** Unpacks a commit in an empty folder, or only the files below a path of it. */
export async function unpackCommit(commit: string, folder: string, path = '.'): Promise<void> {
  const archive = join(folder, 'commit.tar')
  await git('archive', '--format=tar', `--output=${archive}`, commit, path)
  await run('tar', ['-xf', archive, '-C', folder])
}
