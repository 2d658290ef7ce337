import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { readConfig } from '../../src/config.ts'
import type { Resolver } from '../../src/outbound/guard.ts'
import { openOutbound } from '../../src/outbound/outbound.ts'
import { type Git, removeAbandoned, usualBounds, withGit } from '../../src/sources/git.ts'
import { readSourceUrl } from '../../src/sources/source-url.ts'
import {
  deltaBomb,
  emptyPack,
  endlessBlock,
  endlessPack,
  flush,
  packet,
  packfile,
  packPart,
  refList,
} from '../support/git-protocol.ts'
import {
  type GitRepository,
  listProcesses,
  packageFiles,
  sourcesHere,
  useGitServer,
} from '../support/git-server.ts'
import { recordPrograms, replaceProgram } from '../support/recorded-programs.ts'

const server = useGitServer()
const dataDir = mkdtempSync(join(tmpdir(), 'svc-test-git-'))
afterAll(() => rmSync(dataDir, { recursive: true }))
afterEach(() => {
  server.answer = () => false
})

interface Options {
  bounds?: Partial<typeof usualBounds>
  resolver?: Resolver
  login?: string
  privateHosts?: string
  signal?: AbortSignal
}

/** Runs Git on a repository of the server, as the job does. */
async function run<T>(url: string, work: (git: Git) => Promise<T>, options: Options = {}): Promise<T> {
  const { bounds, resolver, login = null, privateHosts, signal = new AbortController().signal } = options
  const config = readConfig({
    ...sourcesHere,
    ...(privateHosts !== undefined && { OUTBOUND_PRIVATE_HOSTS: privateHosts }),
    DATA_DIR: dataDir,
  })
  const outbound = openOutbound(config, resolver)
  const remote = {
    ...readSourceUrl(url, { allowsHttp: true }),
    reachesPrivateHosts: true,
    login,
    sshKey: null,
    hostKeys: null,
  }
  try {
    return await withGit({ config, outbound, bounds: { ...usualBounds, ...bounds } }, remote, signal, work)
  } finally {
    await outbound.close()
  }
}

/** A repository whose name no test needs. */
let lib: ReturnType<typeof aRepository>
beforeAll(() => {
  lib = aRepository('lib')
})

/** Returns a repository with one version, and its commit. */
function aRepository(name: string, files: Record<string, string> = {}): GitRepository & { head: string } {
  const git = server.repository(name)
  const head = git.commit({ ...packageFiles(`acme/${name}`), ...files }, { tag: '1.0.0' })
  return { ...git, head }
}

/** Lets the server answer the nth request for git-upload-pack from now on: first it lists refs, and then it sends a pack. */
function answerUpload(nth: number, respond: (response: ServerResponse) => void): void {
  let uploads = 0
  server.answer = (request, response) => {
    if (request.method === 'POST') uploads += 1
    if (request.method !== 'POST' || uploads < nth) return false
    request.resume()
    response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' })
    respond(response)
    return true
  }
}

/** Sends a chunk for ever. */
function sendForever(response: ServerResponse, chunk: Buffer): void {
  const send = () => {
    while (!response.destroyed && response.write(chunk));
  }
  response.on('drain', send)
  send()
}

const listRefs = ({ listRefs }: Git) => listRefs()
const fetchOf = (head: string) => async (git: Git) => {
  await git.listRefs()
  await git.fetch([head])
}

/** Expects that nothing of a run is left. */
async function expectNothingLeft(): Promise<void> {
  expect(await listProcesses(server.url)).toEqual([])
  expect(readdirSync(join(dataDir, 'git'))).toEqual([])
}

describe('a Git server that is left', () => {
  it('when its list of refs never ends', async () => {
    const { url } = lib
    answerUpload(1, (response) => {
      const line = packet(`${'1'.repeat(40)} refs/tags/1.0.0\n`)
      const timer = setInterval(() => response.write(line), 20)
      response.once('close', () => clearInterval(timer))
    })
    await expect(run(url, listRefs, { bounds: { listMilliseconds: 1000 } })).rejects.toThrow(
      'the server takes too long',
    )
    await expectNothingLeft()
  })

  it('when its refs need more memory than Git may have', async () => {
    const { url } = lib
    const lines = Buffer.concat(
      Array.from({ length: 20_000 }, (_, i) =>
        packet(`${'1'.repeat(40)} refs/tags/${i}${'0'.repeat(200)}\n`),
      ),
    )
    answerUpload(1, (response) => sendForever(response, lines))
    await expect(run(url, listRefs, { bounds: { memoryBytes: 64 * 1024 ** 2 } })).rejects.toThrow(
      'it is too large',
    )
    await expectNothingLeft()
  })

  it('when it sends nothing more', async () => {
    const { url, head } = lib
    answerUpload(2, (response) => response.write(packfile))
    await expect(run(url, fetchOf(head), { bounds: { silentMilliseconds: 500 } })).rejects.toThrow(
      'the server takes too long',
    )
    await expectNothingLeft()
  })

  it('when its pack needs more of the disk than a job may have', async () => {
    const { url, head } = lib
    const block = packPart(endlessBlock(randomBytes(60_000)))
    answerUpload(2, (response) => {
      response.write(Buffer.concat([packfile, packPart(endlessPack())]))
      sendForever(response, block)
    })
    await expect(run(url, fetchOf(head), { bounds: { folderBytes: 20 * 1024 ** 2 } })).rejects.toThrow(
      'it is too large',
    )
    await expectNothingLeft()
  })

  it('when a small delta is a large object', async () => {
    const { url, head } = lib
    const bomb = deltaBomb(1024 ** 3)
    expect(bomb.length).toBeLessThan(10_000)
    answerUpload(2, (response) => response.end(Buffer.concat([packfile, packPart(bomb), flush])))
    await expect(run(url, fetchOf(head))).rejects.toMatchObject({
      failure: 'objects',
      message: 'it is too large',
    })
  })

  it('when the disk of the server has no space', async () => {
    const { url, head } = lib
    answerUpload(2, (response) => response.write(packfile))
    const config = readConfig({ ...sourcesHere, DATA_DIR: dataDir, DISK_RESERVE_BYTES: String(10 ** 14) })
    const outbound = openOutbound(config)
    const remote = { ...readSourceUrl(url, { allowsHttp: true }), login: null, sshKey: null, hostKeys: null }
    const { signal } = new AbortController()
    await expect(
      withGit({ config, outbound }, { ...remote, reachesPrivateHosts: true }, signal, fetchOf(head)),
    ).rejects.toMatchObject({ status: 507 })
    await outbound.close()
  })
})

describe('the connection to a Git server', () => {
  it('goes to the IP that was approved, whatever the name resolves to', async () => {
    const { url, head } = lib
    const resolver: Resolver = (_, __, callback) => callback(null, [{ address: '127.0.0.1', family: 4 }])
    // No other resolver knows the name.
    const named = url.replace('localhost', 'Approved.invalid')
    const { refs } = await run(named, listRefs, { resolver, privateHosts: '127.0.0.1' })
    expect(refs).toContainEqual({ kind: 'tag', name: '1.0.0', objectId: head, commit: head })
  })

  it('follows no redirect, neither of the list nor of the pack', async () => {
    const { url, head } = aRepository('redirect')
    const other = aRepository('elsewhere')
    for (const nth of [0, 1, 2]) {
      let uploads = 0
      server.answer = (request, response) => {
        if (request.method === 'POST') uploads += 1
        if (!request.url?.startsWith('/redirect.git') || uploads < nth) return false
        request.resume()
        response.writeHead(307, { location: request.url.replace('/redirect.git', other.url) }).end()
        return true
      }
      server.requests.length = 0
      await expect(run(url, fetchOf(head))).rejects.toThrow('the server redirects')
      expect(server.requests.join()).not.toContain('elsewhere')
    }
  })

  it('uses no alternates of a server that only has files', async () => {
    const { url, head } = aRepository('files')
    server.answer = (request, response) => {
      const path = (request.url ?? '').replace(/\?.*/, '')
      const files: Record<string, string> = {
        '/files.git/info/refs': `${head}\trefs/heads/main\n`,
        '/files.git/HEAD': 'ref: refs/heads/main\n',
        '/files.git/objects/info/http-alternates': `${server.url}/secret.git/objects\n`,
        '/files.git/objects/info/alternates': '/secret.git/objects\n',
      }
      const text = files[path]
      response.writeHead(text === undefined ? 404 : 200, { 'content-type': 'text/plain' }).end(text)
      return true
    }
    server.requests.length = 0
    await expect(run(url, fetchOf(head))).rejects.toThrow(
      'the server does not speak the protocol of Git over HTTP',
    )
    expect(server.requests.join()).not.toContain('secret.git')
  })
})

describe('a Git server that lies', () => {
  it('has odd refs named so that they can be shown, and none twice', async () => {
    const { url, head } = lib
    const names = [
      'refs/tags/1.0.0\u202e',
      'refs/tags/\u001b[31mred',
      'refs/tags/a\r\u2028b',
      Buffer.concat([Buffer.from('refs/tags/2.0.0'), Buffer.from([0xff])]),
      Buffer.concat([Buffer.from('refs/tags/2.0.0'), Buffer.from([0xfe])]),
      'refs/tags/3.0.0',
      'refs/tags/3.0.0',
      'refs/heads/../main',
      'refs/heads/-option',
      'refs/heads/a..b',
      'refs/heads/a.lock',
      `refs/heads/${'long'.repeat(100)}`,
      'refs/pull/1/head',
    ]
    const lines = names.map((name) => Buffer.concat([Buffer.from(`${head} `), Buffer.from(name as string)]))
    answerUpload(1, (response) => response.end(gzipSync(refList(lines))))
    const answer = server.answer
    server.answer = (request, response) => {
      if (request.method === 'POST') response.setHeader('content-encoding', 'gzip')
      return answer(request, response)
    }
    const { refs } = await run(url, listRefs)
    expect(refs.map(({ name }) => name)).toEqual([
      '1.0.0[U+202E]',
      '[U+001B][31mred',
      'a[U+000D][U+2028]b',
      '2.0.0\ufffd',
      '3.0.0',
      '[../main]',
      '[-option]',
      '[a..b]',
      '[a.lock]',
      `${'long'.repeat(75)}…`,
    ])
  })

  it('gets these tags refused, and not its others', async () => {
    const { url, head } = lib
    const missing = fetchOf('1'.repeat(40))
    await expect(run(url, missing)).rejects.toMatchObject({ failure: 'objects' })
    answerUpload(2, (response) => response.end(Buffer.concat([packfile, packPart(emptyPack()), flush])))
    await expect(run(url, fetchOf(head))).rejects.toMatchObject({ failure: 'objects' })
  })
})

describe('Git', () => {
  it('gets its own environment only, and the credentials only when it connects', async () => {
    const { url, head } = lib
    const recorded = recordPrograms('git')
    process.env['GIT_TRACE_CURL'] = join(dataDir, 'trace')
    onTestFinished(() => void delete process.env['GIT_TRACE_CURL'])
    await run(
      url,
      async (git) => {
        await git.fetch([head])
        await git.resolve([head], '')
      },
      { login: 'alice:the-login' },
    )
    const own = [
      'GIT_ALLOW_PROTOCOL',
      'GIT_ASKPASS',
      'GIT_CONFIG_GLOBAL',
      'GIT_CONFIG_NOSYSTEM',
      'GIT_PROTOCOL_FROM_USER',
      'GIT_TERMINAL_PROMPT',
      'HOME',
      'LC_ALL',
      'PATH',
    ]
    const login = ['GIT_CONFIG_COUNT', 'GIT_CONFIG_KEY_0', 'GIT_CONFIG_VALUE_0']
    const runs = recorded().flatMap(({ words, environment }) => {
      const [, command] = /--git-dir=\S+ (\S+)/.exec(words) ?? []
      // The shell of the recorder sets PWD.
      const names = environment.map((line) => line.replace(/=.*/, '')).filter((name) => name !== 'PWD')
      return command === undefined ? [] : [[command, names.toSorted()]]
    })
    expect(Object.fromEntries(runs)).toEqual({ fetch: [...login, ...own].toSorted(), 'cat-file': own })
  })

  it('runs no program that an archive asks for', async () => {
    const { url, git, path, head } = aRepository('signed', {
      '.gitattributes': '*.txt export-subst\n',
      'signature.txt': '$Format:%G?$',
    })
    const commit = git('cat-file', 'commit', head).replace(
      '\n\n',
      '\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n AAAA\n -----END PGP SIGNATURE-----\n\n',
    )
    const signed = execFileSync('git', ['-C', path, 'hash-object', '-t', 'commit', '-w', '--stdin'], {
      input: `${commit}\n`,
    })
      .toString()
      .trim()
    execFileSync('git', ['-C', path, 'update-ref', 'refs/tags/1.1.0', signed])
    const mark = join(dataDir, 'mark')
    replaceProgram('gpg', `echo >${mark}`)
    const size = await run(url, async (git) => {
      await git.fetch([signed])
      return git.archive(signed, async (bytes: Readable) => (await bytes.toArray()).length)
    })
    expect(size).toBeGreaterThan(0)
    expect(existsSync(mark)).toBe(false)
  })

  it('finds no folder in a link, a submodule or a file', async () => {
    const odd = 'a b/c+d@e/tree 1'
    const repository = aRepository('folders', { 'real/file.txt': 'x', [`${odd}/file.txt`]: 'x' })
    const { url, git } = repository
    const link = execFileSync('git', ['-C', repository.path, 'hash-object', '-w', '--stdin'], {
      input: 'real',
    })
    execFileSync('git', ['-C', repository.path, 'update-ref', 'refs/heads/keep', repository.head])
    const id = link.toString().trim()
    execFileSync('git', ['-C', repository.path, 'tag', 'link', id])
    git('update-index', '--add', '--cacheinfo', `120000,${id},link`)
    git('update-index', '--add', '--cacheinfo', `160000,${'2'.repeat(40)},module`)
    git('commit', '--quiet', '--message', 'A link and a submodule')
    const head = git('rev-parse', 'HEAD')
    await run(url, async (git) => {
      await git.fetch([head])
      const tree = (folder: string) => repository.git('rev-parse', `${head}:${folder}`)
      for (const folder of ['', 'real', odd])
        expect(await git.resolve([head], folder)).toEqual(
          new Map([[head, { commit: head, tree: tree(folder) }]]),
        )
      for (const folder of ['link', 'link/x', 'module', 'module/x', 'composer.json', 'none', 'real '])
        expect([folder, await git.resolve([head], folder)]).toEqual([
          folder,
          new Map([[head, { commit: head, tree: null }]]),
        ])
    })
  })

  it('reads and packs no more than its bounds, and the server is not to blame', async () => {
    const { url, path } = aRepository('bomb')
    const write = (type: string, input: string | Buffer) =>
      execFileSync('git', ['-C', path, 'hash-object', '-t', type, '-w', '--stdin'], { input })
        .toString()
        .trim()
    let tree = write('blob', 'x')
    // 10 folders of 10 folders, and so on: 10,000,000,000 files.
    for (let level = 0; level < 10; level += 1) {
      const entries = Array.from({ length: 10 }, (_, i) =>
        Buffer.concat([Buffer.from(`${level === 0 ? '100644' : '40000'} ${i}\0`), Buffer.from(tree, 'hex')]),
      )
      tree = write('tree', Buffer.concat(entries))
    }
    const commit = write(
      'commit',
      `tree ${tree}\nauthor A <a@example.com> 1700000000 +0000\ncommitter A <a@example.com> 1700000000 +0000\n\nx\n`,
    )
    execFileSync('git', ['-C', path, 'update-ref', 'refs/tags/2.0.0', commit])
    const bounds = { readBytes: 100, readMilliseconds: 2 ** 31 - 1, archiveMilliseconds: 500 }
    await run(
      url,
      async (git) => {
        await git.fetch([commit])
        const tooLarge = { failure: 'objects', message: 'it is too large' }
        await expect(git.resolve([commit, tree], '')).rejects.toMatchObject(tooLarge)
        await expect(
          git.archive(commit, async (bytes: Readable) => {
            for await (const _ of bytes);
          }),
        ).rejects.toMatchObject(tooLarge)
      },
      { bounds },
    )
    await expectNothingLeft()
  })

  it('is ended when nobody reads the rest of an archive', async () => {
    const { url, head } = aRepository('large', { 'a.txt': randomBytes(3_000_000).toString('hex') })
    await run(url, async (git) => {
      await git.fetch([head])
      const reading = git.archive(head, async (bytes: Readable) => {
        for await (const _ of bytes.iterator({ destroyOnReturn: false })) throw new Error('enough')
      })
      await expect(reading).rejects.toThrow('enough')
      expect(await listProcesses(dataDir)).toEqual([])
    })
  })

  it('has its folder removed a while after its process was killed, and not while it is used', async () => {
    const { url, head } = lib
    const parent = join(dataDir, 'git')
    const left = join(parent, 'source-left')
    mkdirSync(left, { recursive: true })
    writeFileSync(join(left, 'key'), 'a key')
    await run(url, async (git) => {
      await git.fetch([head])
      await removeAbandoned({ dataDir })
      expect(readdirSync(parent)).toHaveLength(2)
      const before = new Date(Date.now() - 11 * 60_000)
      utimesSync(left, before, before)
      await removeAbandoned({ dataDir })
      expect(readdirSync(parent)).toHaveLength(1)
      await git.resolve([head], '')
    })
    expect(readdirSync(parent)).toEqual([])
  })
})
