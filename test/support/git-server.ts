import { execFile, execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll } from 'vitest'

/** The settings of a svc that may read Git repositories of this machine, if an operator added the source. */
export const sourcesHere = { OUTBOUND_HTTP: 'true', OUTBOUND_PRIVATE_HOSTS: 'localhost,127.0.0.1' }

/** A Git repository on the server. */
export interface GitRepository {
  url: string
  /** The bare repository of the server. */
  path: string
  /** Runs git in a worktree of the repository, and returns the output. */
  git: (...words: string[]) => string
  /** Writes files, and commits them. Returns the commit. */
  commit: (files: Record<string, string>, options?: { tag?: string; branch?: string }) => string
}

/** A Git server: git http-backend behind HTTP. */
export interface GitServer {
  readonly url: string
  /** The requests so far, such as `POST /lib.git/git-upload-pack`. */
  requests: string[]
  /** Answers instead of git. Returns whether it has. */
  answer: (request: IncomingMessage, response: ServerResponse) => boolean
  /** The value of the Authorization header that it needs. */
  authorization: string | null
  repository: (name: string) => GitRepository
}

/** Runs a Git server for one test file. */
export function useGitServer(): GitServer {
  const folder = mkdtempSync(join(tmpdir(), 'svc-git-server-'))
  const server = createServer((request, response) => void serve(request, response))
  beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
  afterAll(async () => {
    server.closeAllConnections()
    await promisify(server.close.bind(server))()
    rmSync(folder, { recursive: true })
  })
  const git: GitServer = {
    requests: [],
    answer: () => false,
    authorization: null,
    get url() {
      return `http://localhost:${(server.address() as AddressInfo).port}`
    },
    repository(name) {
      const { path, ...own } = makeRepository(folder, name)
      return { ...own, path, url: `${git.url}/${name}.git` }
    },
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    git.requests.push(`${request.method} ${request.url?.replace(/\?.*/, '')}`)
    if (git.answer(request, response)) return
    if (git.authorization !== null && request.headers.authorization !== git.authorization) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
      return
    }
    runBackend(folder, request, response)
  }
  return git
}

const person = {
  GIT_AUTHOR_NAME: 'Alice',
  GIT_AUTHOR_EMAIL: 'alice@example.com',
  GIT_COMMITTER_NAME: 'Alice',
  GIT_COMMITTER_EMAIL: 'alice@example.com',
}

/** Git looks after a repository from time to time, in one more program for each commit. */
const withoutUpkeep = {
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: 'maintenance.auto',
  GIT_CONFIG_VALUE_0: 'false',
}

/** Answers a request with git http-backend, from the Git repositories of a folder. */
export function runBackend(folder: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost')
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: pathname,
      QUERY_STRING: String(searchParams),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  request.pipe(child.stdin)
  child.stdin.on('error', () => {})
  let head = Buffer.alloc(0)
  let isHead = true
  child.stdout.on('data', (chunk: Buffer) => {
    if (!isHead) return void response.write(chunk)
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    isHead = false
    const lines = head.subarray(0, end).toString().split('\r\n')
    const headers = lines.map((line) => line.split(': ') as [string, string])
    const status = headers.find(([field]) => field.toLowerCase() === 'status')?.[1]
    response.writeHead(Number(status?.slice(0, 3) ?? 200), Object.fromEntries(headers))
    response.write(head.subarray(end + 4))
  })
  child.stdout.on('end', () => response.end())
}

/** Makes a bare repository `<name>.git` in a folder, with a worktree: its commits need no push, which takes ten programs. */
export function makeRepository(folder: string, name: string): Omit<GitRepository, 'url'> {
  const path = join(folder, `${name}.git`)
  const worktree = join(folder, 'worktrees', name)
  mkdirSync(worktree, { recursive: true })
  const run = (program: string, words: string[], variables: Record<string, string> = {}) =>
    execFileSync(program, words, {
      cwd: worktree,
      env: { ...process.env, ...person, ...withoutUpkeep, ...variables },
      encoding: 'utf8',
      stdio: 'pipe',
    }).trim()
  /** Runs many commands of git as one program: to copy this process for each takes longer than most of them. */
  const script = (lines: string, variables?: Record<string, string>) => run('sh', ['-ec', lines], variables)
  script(
    // A worktree begins with a commit. The branch main does not have it.
    `git init --quiet --bare --template= --initial-branch=main "$BARE"
     first=$(git -C "$BARE" commit-tree -m First "$(git -C "$BARE" mktree </dev/null)")
     git -C "$BARE" worktree add --detach "$PWD" "$first" >/dev/null 2>&1
     git checkout --quiet --orphan main`,
    { BARE: path },
  )
  return {
    path,
    git: (...words) => run('git', words),
    commit(files, { tag = '', branch = '' } = {}) {
      for (const [file, content] of Object.entries(files)) {
        mkdirSync(dirname(join(worktree, file)), { recursive: true })
        writeFileSync(join(worktree, file), content)
      }
      return script(
        `if [ "$BRANCH" ]; then git checkout --quiet -B "$BRANCH"; fi
         git add --all
         git commit --quiet --allow-empty --message 'A change'
         if [ "$TAG" ]; then git tag --force "$TAG" >/dev/null; fi
         git rev-parse HEAD`,
        { BRANCH: branch, TAG: tag },
      )
    },
  }
}

/** Returns the files of a package. */
export function packageFiles(name: string, manifest: Record<string, unknown> = {}): Record<string, string> {
  return {
    'composer.json': JSON.stringify({ name, autoload: { 'psr-4': { 'Acme\\': 'src/' } }, ...manifest }),
    'src/Hello.php': '<?php namespace Acme; final class Hello {}\n',
  }
}

/** Lists the processes of this machine whose command line contains a text. */
export async function listProcesses(text: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)('ps', ['ax', '-ww', '-o', 'pid=,args='])
  return stdout.split('\n').filter((line) => line.includes(text) && !line.includes('ps ax'))
}
