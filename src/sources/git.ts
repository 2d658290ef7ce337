import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { constants, setPriority } from 'node:os'
import { join } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import type { Config } from '../config.ts'
import { measureDisk } from '../domain/disk-space.ts'
import { revealUnsafe } from '../domain/plain-text.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import type { Outbound } from '../outbound/outbound.ts'
import type { SourceUrl } from './source-url.ts'

/** A Git repository, and what it takes to read it. */
export interface GitRemote extends SourceUrl {
  /** Whether it may be on a host of OUTBOUND_PRIVATE_HOSTS. */
  reachesPrivateHosts: boolean
  /** `user:password`, for HTTP Basic. Null for none. */
  login: string | null
  /** A private key. Null unless the protocol is SSH. */
  sshKey: string | null
  /** The keys of the SSH server, as lines of known_hosts. Null accepts and stores those of the first connection. */
  hostKeys: string | null
}

/**
 * - `remote`: the server cannot be reached, or refuses;
 * - `broken`: the connection has broken off, perhaps because it had to send too much at once;
 * - `objects`: Git refuses what the server has sent, or it is too large;
 * - `missing`: the commit does not have what was asked for.
 */
export type GitFailure = 'remote' | 'broken' | 'objects' | 'missing'

/** A failed command of Git. The message has no credentials, and nothing that a server has sent. */
export class GitError extends Error {
  override readonly name = 'GitError'
  readonly failure: GitFailure

  constructor(failure: GitFailure, message: string) {
    super(message)
    this.failure = failure
  }
}

/** A tag or branch of a Git repository. */
export interface RemoteRef {
  kind: 'tag' | 'branch'
  /** An odd one is shortened, or has its control characters as code points. Then it is no version. */
  name: string
  /** The object that the server names: for an annotated tag, the tag itself. */
  objectId: string
  /** The object behind it. */
  commit: string
}

/** What is behind an object of a Git repository. */
export interface Resolved {
  /** Null when it is no commit. */
  commit: string | null
  /** The tree of the folder. Null when the commit does not have it. */
  tree: string | null
}

/** Git commands on an own, temporary, bare repository. */
export interface Git {
  /** Lists tags and branches, and the name of the default branch. Null when the server does not say. */
  listRefs: () => Promise<{ refs: RemoteRef[]; defaultBranch: string | null }>
  /** Fetches objects, without their history. */
  fetch: (objectIds: readonly string[]) => Promise<void>
  /** Finds the commit behind each object, and the tree of a folder in it. Returns them by the id of the object. */
  resolve: (objectIds: readonly string[], folder: string) => Promise<Map<string, Resolved>>
  /** Returns those of the empty folders of an archive that are submodules in its tree. */
  findSubmodules: (tree: string, folders: readonly string[]) => Promise<string[]>
  /** Packs a commit or tree into a zip, and gives the bytes to `use`. */
  archive: <T>(treeish: string, use: (bytes: Readable) => Promise<T>) => Promise<T>
  /** Returns the lines of known_hosts that an SSH connection has stored. */
  readHostKeys: () => Promise<string>
}

/** What the commands of one job may take. */
export const usualBounds = {
  /** The list of all refs of a repository with 100,000 of them has about 7 MiB. */
  listMilliseconds: 60_000,
  listBytes: 8 * 1024 ** 2,
  fetchMilliseconds: 10 * 60_000,
  /** A server that sends nothing for so long is left. It may need time to prepare what it sends. */
  silentMilliseconds: 2 * 60_000,
  /** On the disk, while something is fetched. */
  folderBytes: 2 * 1024 ** 3,
  /** Of each process. Git holds all refs of a server, and objects of a few bytes can be deltas that are large. */
  memoryBytes: 512 * 1024 ** 2,
  /** With more bytes, what was fetched before is forgotten first. */
  keptBytes: 1024 ** 3,
  readMilliseconds: 60_000,
  readBytes: 32 * 1024 ** 2,
  archiveMilliseconds: 5 * 60_000,
}
const measureMilliseconds = 250
const maxErrorBytes = 16 * 1024
const maxNameLength = 300
/** How often a job says that its folder is in use, and how long it takes until nobody uses a folder. */
const beatMilliseconds = 60_000
const abandonedMilliseconds = 10 * 60_000

const options = [
  'core.hooksPath=/dev/null',
  'transfer.fsckObjects=true',
  'fetch.fsck.zeroPaddedFilemode=ignore',
  'fetch.fsck.badTimezone=ignore',
  'fetch.fsck.missingSpaceBeforeDate=ignore',
  'core.fsmonitor=false',
  'submodule.recurse=false',
  'gc.auto=0',
  // Larger files are not held in memory.
  'core.bigFileThreshold=32m',
  'pack.threads=1',
  'credential.helper=',
  'http.followRedirects=false',
  'protocol.version=2',
]

/**
 * Runs git. The first word is the bound for its memory in KiB. Pipe 3 closes when svc ends, even if it was killed: then the
 * process group ends itself. Without the second word `connect`, Git finds no other program: an archive can ask for the
 * signature of its commit (export-subst with %G?), for which Git runs gpg.
 */
const guarded = `git=$(command -v git) || exit 127
ulimit -d "$1" 2>/dev/null || :
[ "$2" = connect ] || PATH=/dev/null
shift 2
unset PWD OLDPWD
(read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 &
"$git" "$@" 3<&-
code=$?
{ kill -KILL $!; wait; } 2>/dev/null
exit $code`
const notFound = 127
/** The exit codes when the server is to blame: the shell could not fork, or something has sent SIGINT, SIGKILL or SIGTERM. */
const endedByServer: readonly (number | null)[] = [null, 2, 128 + 2, 128 + 9, 128 + 15]

/** The parts that Git needs. Tests have lower bounds. */
interface GitContext {
  config: Pick<Config, 'dataDir' | 'outbound' | 'storage'>
  outbound: Outbound
  bounds?: typeof usualBounds
}

/**
 * Approves the address of a Git repository, runs work on it, and removes what the work has written. The server is not
 * trusted: Git gets an environment of its own, no configuration but ours, and bounds for time, disk and output. Every process is
 * gone when the work ends or the signal aborts. Throws `GitError`, `OutboundError`, and the errors of the work.
 */
export async function withGit<T>(
  { config, outbound, bounds = usualBounds }: GitContext,
  remote: GitRemote,
  signal: AbortSignal,
  work: (git: Git) => Promise<T>,
): Promise<T> {
  const { host, port, reachesPrivateHosts } = remote
  const address = await outbound.approveHost('git', host, port, { reachesPrivateHosts })
  const parent = join(config.dataDir, 'git')
  await mkdir(parent, { recursive: true })
  const folder = await mkdtemp(join(parent, 'source-'))
  const beating = setInterval(() => void touch(folder), beatMilliseconds).unref()
  const ended = new AbortController()
  try {
    const bound = { address, folder, bounds, signal: AbortSignal.any([signal, ended.signal]) }
    return await work(await openGit(config, remote, bound))
  } finally {
    ended.abort()
    clearInterval(beating)
    await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** Removes the folders of jobs whose process was killed. */
export async function removeAbandoned({ dataDir }: Pick<Config, 'dataDir'>): Promise<void> {
  const parent = join(dataDir, 'git')
  for (const name of await readdir(parent).catch(() => [])) {
    const path = join(parent, name)
    const found = await stat(path).catch(() => null)
    if (found && found.mtimeMs < Date.now() - abandonedMilliseconds)
      await rm(path, { recursive: true, force: true })
  }
}

async function touch(folder: string): Promise<void> {
  const now = new Date()
  await utimes(folder, now, now).catch(() => {})
}

interface Bound {
  address: string
  folder: string
  bounds: typeof usualBounds
  signal: AbortSignal
}

async function openGit(
  config: GitContext['config'],
  remote: GitRemote,
  { address, folder, bounds, signal }: Bound,
): Promise<Git> {
  const repository = join(folder, 'repository')
  const hostKeysPath = join(folder, 'known_hosts')
  await mkdir(join(folder, 'home'))
  await makeEmpty(repository)
  const allowsHttp = config.outbound.allowHttp && remote.reachesPrivateHosts
  const environment = {
    PATH: process.env['PATH'],
    HOME: join(folder, 'home'),
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '/bin/true',
    GIT_ALLOW_PROTOCOL: allowsHttp ? 'https:ssh:http' : 'https:ssh',
    GIT_PROTOCOL_FROM_USER: '0',
    LC_ALL: 'C',
  }
  // Only the commands that connect need them.
  const credentials = {
    ...loginOf(remote),
    ...(await sshOf(remote, { address, folder, hostKeysPath })),
  }
  const pinned = isIP(remote.host) === 0 ? [`http.curloptResolve=${resolveOf(remote, address)}`] : []
  const own = [...[...options, ...pinned].flatMap((option) => ['-c', option]), `--git-dir=${repository}`]

  /** Runs a command until its end, and gives its output to `use`. Kills its process group when anything is over a bound. */
  async function run<T>(
    args: readonly string[],
    milliseconds: number,
    use: (output: Readable) => Promise<T>,
    { input = '', connects = false, fetches = false }: RunOptions = {},
  ): Promise<T> {
    signal.throwIfAborted()
    // A process group of its own: Git starts others, such as ssh.
    const guard = ['-c', guarded, 'git', String(bounds.memoryBytes / 1024), connects ? 'connect' : 'read']
    const child = spawn('/bin/sh', [...guard, ...own, ...args], {
      cwd: folder,
      env: { ...environment, ...(connects && credentials) },
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    })
    const { pid } = child
    const stdout = child.stdout as Readable
    const kill = () => void (pid !== undefined && killGroup(pid))
    let reason: Error | null = null
    const stop = (error: Error) => {
      reason ??= error
      kill()
    }
    if (pid !== undefined) lowerPriority(pid)
    // A command that ends early does not read it.
    child.stdin?.on('error', () => {}).end(input)
    // Node throws away the output that nobody reads yet when the process ends. This copy of it ends only if the command has
    // succeeded: nobody takes the start of an archive for the whole.
    const output = stdout.pipe(new PassThrough(), { end: false }).on('error', () => {})
    const message = readStart(child.stderr as Readable).catch(() => '')
    const ended = exitOf(child)
      .then(async (code) => {
        if (reason !== null) throw reason
        if (code !== 0) throw explain(code, await message, connects ? remote : null)
        output.end()
      })
      .catch((error: Error) => void output.destroy(error))
    const onAbort = () => stop(signal.reason as Error)
    signal.addEventListener('abort', onAbort)
    const timer = setTimeout(() => stop(connects ? takesTooLong() : isTooLarge()), milliseconds)
    const measuring = fetches ? setInterval(() => void measure(), measureMilliseconds) : null
    let [lastBytes, lastChange] = [0, Date.now()]
    async function measure(): Promise<void> {
      const bytes = await measureFolder(folder)
      if (bytes !== lastBytes) [lastBytes, lastChange] = [bytes, Date.now()]
      if (bytes > bounds.folderBytes) stop(isTooLarge())
      if (await isDiskFull(folder, config)) stop(noSpaceLeft())
      if (Date.now() - lastChange > bounds.silentMilliseconds) stop(takesTooLong())
    }
    try {
      return await use(output)
    } finally {
      clearTimeout(timer)
      if (measuring !== null) clearInterval(measuring)
      signal.removeEventListener('abort', onAbort)
      kill()
      // Without a reader it would never end.
      stdout.destroy()
      await ended
    }
  }

  /** Looks for objects by their names, in one process. Returns `<type> <id>` for each, or a text that says that it is missing. */
  async function findObjects(names: readonly string[]): Promise<string[]> {
    const text = await run(
      ['cat-file', '--batch-check=%(objecttype) %(objectname)'],
      bounds.readMilliseconds,
      (output) => readAll(output, bounds.readBytes, isTooLarge),
      { input: names.map((name) => `${name}\n`).join('') },
    )
    return text.split('\n')
  }

  return {
    async listRefs() {
      const args = ['ls-remote', '--symref', '--', remote.url, 'HEAD', 'refs/heads/*', 'refs/tags/*']
      const text = await run(
        args,
        bounds.listMilliseconds,
        (output) => readAll(output, bounds.listBytes, hasTooManyRefs),
        { connects: true },
      )
      return parseRefs(text)
    },
    async fetch(objectIds) {
      const specs = objectIds.map((id) => `${id}:refs/fetched/${id}`)
      const flags = ['--depth=1', '--no-tags', '--no-write-fetch-head', '--quiet']
      if ((await measureFolder(repository)) > bounds.keptBytes) await makeEmpty(repository)
      try {
        const words = ['fetch', ...flags, '--', remote.url, ...specs]
        await run(words, bounds.fetchMilliseconds, drain, { connects: true, fetches: true })
      } catch (error) {
        // Git cannot remove what it had written when it was killed.
        await makeEmpty(repository)
        throw error
      }
    },
    async resolve(objectIds, folder) {
      const inside = folder === '' ? '^{tree}' : `^{commit}:${folder}`
      const found = await findObjects(objectIds.flatMap((id) => [`${id}^{commit}`, `${id}${inside}`]))
      return new Map(
        objectIds.map((id, i) => {
          const [commit, tree] = found.slice(2 * i)
          return [id, { commit: idOf(commit, 'commit'), tree: idOf(tree, 'tree') }]
        }),
      )
    },
    async findSubmodules(tree, folders) {
      const found = await findObjects(folders.map((path) => `${tree}:${path}`))
      return folders.filter((_, i) => idOf(found[i], 'tree') === null)
    },
    archive: (treeish, use) => run(['archive', '--format=zip', treeish], bounds.archiveMilliseconds, use),
    readHostKeys: () => readFile(hostKeysPath, 'utf8').catch(() => ''),
  }
}

/** What a command reads, and may do. */
interface RunOptions {
  input?: string
  /** Whether it connects to the server, with the credentials. */
  connects?: boolean
  fetches?: boolean
}

const isTooLarge = () => new GitError('objects', 'it is too large')
const takesTooLong = () => new GitError('remote', 'the server takes too long')
const hasTooManyRefs = () => new GitError('remote', 'it has too many tags and branches')
const wasEnded = () =>
  new Refusal(errcode.unavailable, 'the server has ended Git, which may need more memory')
const noSpaceLeft = () =>
  new Refusal(errcode.resourceExhausted, 'no space left on the disk of the server', { status: 507 })

/** Returns the setting that makes Git connect to the address that was approved, whatever the name resolves to by now. */
function resolveOf({ host, port }: GitRemote, address: string): string {
  return `${host}:${port}:${isIP(address) === 6 ? `[${address}]` : address}`
}

/** Returns the environment that sends a login. It is not on the command line, which every process of the machine can read. */
function loginOf({ url, login }: GitRemote): Record<string, string> {
  if (login === null) return {}
  return {
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: `http.${url}.extraHeader`,
    GIT_CONFIG_VALUE_0: `Authorization: Basic ${Buffer.from(login).toString('base64')}`,
  }
}

/** Writes the key of an SSH connection, and returns the environment that uses it. */
async function sshOf(
  { protocol, host, sshKey, hostKeys }: GitRemote,
  { address, folder, hostKeysPath }: { address: string; folder: string; hostKeysPath: string },
): Promise<Record<string, string>> {
  if (protocol !== 'ssh:') return {}
  const keyPath = join(folder, 'key')
  await writeFile(keyPath, `${(sshKey ?? '').trimEnd()}\n`, { mode: 0o600 })
  if (hostKeys !== null) await writeFile(hostKeysPath, hostKeys, { mode: 0o600 })
  const settings = [
    'IdentitiesOnly=yes',
    'IdentityAgent=none',
    'BatchMode=yes',
    `StrictHostKeyChecking=${hostKeys === null ? 'accept-new' : 'yes'}`,
    // ssh splits its settings at spaces.
    `UserKnownHostsFile=${/\s/.test(hostKeysPath) ? `"${hostKeysPath}"` : hostKeysPath}`,
    'GlobalKnownHostsFile=/dev/null',
    `HostName=${address}`,
    `HostKeyAlias=${host}`,
  ]
  const words = ['ssh', '-F', '/dev/null', '-i', keyPath, ...settings.flatMap((setting) => ['-o', setting])]
  return { GIT_SSH_COMMAND: words.map(quote).join(' ') }
}

/** Quotes a word for the shell that starts ssh. */
function quote(word: string): string {
  return /^[\w./:=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** Returns the id of an object that `findObjects` has found. Null when it has another type, or is not there. */
function idOf(found: string | undefined, type: string): string | null {
  const [foundType, id] = (found ?? '').split(' ')
  return foundType === type && id !== undefined ? id : null
}

function parseRefs(text: string): { refs: RemoteRef[]; defaultBranch: string | null } {
  const refs = new Map<string, RemoteRef>()
  let defaultBranch: string | null = null
  for (const line of text.split('\n')) {
    const [, branch] = /^ref: refs\/heads\/(.+)\tHEAD$/s.exec(line) ?? []
    if (branch !== undefined) defaultBranch = nameOf(branch)
    const [, id, folder, sent, peeled] =
      /^([\da-f]{40,64})\trefs\/(heads|tags)\/(.+?)(\^\{\})?$/s.exec(line) ?? []
    if (id === undefined || sent === undefined) continue
    const kind = folder === 'tags' ? 'tag' : 'branch'
    const name = nameOf(sent)
    const known = refs.get(`${kind} ${name}`)
    // The line of an annotated tag is followed by that of the object behind it.
    if (known && peeled !== undefined) known.commit = id
    else if (!known && peeled === undefined)
      refs.set(`${kind} ${name}`, { kind, name, objectId: id, commit: id })
  }
  return { refs: [...refs.values()], defaultBranch }
}

/** Names that Git itself would not make, but that a server can send. */
const malformed = /^[-./]|\/[./]|\.\.|\/$|\.$|\.lock(?:\/|$)|[\s~^:?*[\\]|@\{/

/** Returns the name of a ref so that it can be stored and shown. An odd one becomes one that is no version. */
function nameOf(sent: string): string {
  const name = sent.length > maxNameLength ? `${sent.slice(0, maxNameLength)}…` : sent
  const plain = revealUnsafe(name)
  return plain === sent && malformed.test(sent) ? `[${sent}]` : plain
}

async function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
}

/** Ends a process and those that it has started. */
function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // All of them have ended.
  }
}

/** Requests go first. */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // It has ended already.
  }
}

async function isDiskFull(folder: string, { storage }: Pick<Config, 'storage'>): Promise<boolean> {
  const disk = await measureDisk(folder).catch(() => null)
  return disk !== null && disk.freeBytes < storage.reserveBytes
}

/** Returns the size of the files in a folder. */
async function measureFolder(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true }).catch(() => [])
  const found = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => null)))
  return found.reduce((sum, file) => sum + (file?.size ?? 0), 0)
}

/** Makes an empty bare repository: what `git init` would write, without a process, and without templates. */
async function makeEmpty(repository: string): Promise<void> {
  await rm(repository, { recursive: true, force: true })
  for (const name of ['objects/pack', 'refs']) await mkdir(join(repository, name), { recursive: true })
  await writeFile(join(repository, 'HEAD'), 'ref: refs/heads/main\n')
}

async function readAll(output: Readable, maxBytes: number, tooMuch: () => GitError): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of output as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > maxBytes) throw tooMuch()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** Reads a stream to its end, and returns how it begins. */
async function readStart(output: Readable): Promise<string> {
  let text = ''
  for await (const chunk of output.setEncoding('utf8') as AsyncIterable<string>) {
    if (text.length < maxErrorBytes) text += chunk
  }
  return text
}

async function drain(output: Readable): Promise<void> {
  for await (const _ of output);
}

const refusesObjects = 'Git refuses its objects as damaged or malicious'

/** What the messages of Git mean, the first match first. They contain URLs and what a server has sent, so nobody sees them. */
const explanations: readonly [RegExp, GitFailure, string][] = [
  [/out of memory|[mr]e?alloc failed/i, 'objects', 'it is too large'],
  [/fsck error/i, 'objects', refusesObjects],
  [/repository corruption/i, 'objects', 'the server cannot read its own objects'],
  // With 23, Git does not take what is sent.
  [
    /RPC failed; curl (?!23)|closed by remote host|client_loop: send disconnect|Connection reset by/i,
    'broken',
    'the connection to the server has broken off',
  ],
  [
    /REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed/i,
    'remote',
    'the SSH server has another key than the pinned one: if that is right, remove the source and add it again',
  ],
  [
    /Permission denied \(|error in libcrypto|invalid format/i,
    'remote',
    'the server does not accept the SSH key',
  ],
  [
    /Authentication failed|could not read Username|returned error: 40[13]|HTTP 40[13]/i,
    'remote',
    'the server does not accept the credentials, or needs some',
  ],
  [
    /returned error: 404|repository .* not found|not appear to be a git repository|Repository not found|does not exist/i,
    'remote',
    'the server has no such Git repository, or needs credentials',
  ],
  [
    /returned error: 3\d\d|redirect/i,
    'remote',
    'the server redirects: add the source with the URL that it redirects to',
  ],
  [/dumb http transport/i, 'remote', 'the server does not speak the protocol of Git over HTTP'],
  [
    /fsck|index-pack failed|bad object|corrupt|invalid index-pack|missing blob|unpack/i,
    'objects',
    refusesObjects,
  ],
  [
    /unadvertised object|not our ref|couldn't find remote ref|did not send all necessary/i,
    'objects',
    'the server does not send it',
  ],
  [
    /mismatched algorithms|object format/i,
    'remote',
    'it has the object format SHA-256, which svc cannot read',
  ],
  [/certificate|SSL|TLS/i, 'remote', 'the certificate of the server is not valid'],
]

/** Returns the error of a failed command. `remote` is the Git server that it has connected to. */
function explain(code: number | null, message: string, remote: GitRemote | null): Error {
  if (code === notFound) return new Error('The program git is not installed on the server.')
  if (endedByServer.includes(code)) return wasEnded()
  // The messages of the Git server about its own disk are others.
  if (/^(?!remote:).*(?:No space left on device|Disk quota exceeded)/m.test(message)) return noSpaceLeft()
  const found = explanations.find(([pattern]) => pattern.test(message))
  if (found) return new GitError(found[1], found[2])
  if (remote !== null)
    return new GitError('remote', `${remote.host} cannot be reached, or Git cannot read its response`)
  return new GitError('objects', 'Git cannot read its objects')
}
