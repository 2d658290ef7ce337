import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { background } from '../../src/domain/principal.ts'
import { readSourceJob } from '../../src/sources/read-source.ts'
import { queuePushed } from '../../src/sources/sources.ts'
import { openLog } from '../../src/web/server/log.ts'
import { useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import { endlessPack, packfile, packPart, refList } from '../support/git-protocol.ts'
import { listProcesses, packageFiles, sourcesHere, useGitServer } from '../support/git-server.ts'
import { replaceProgram } from '../support/recorded-programs.ts'
import { aSource, readSources } from '../support/source-actors.ts'
import { ageFailure, minutesUntilLook } from '../support/source-rows.ts'

const t = useApp(sourcesHere)
const server = useGitServer()
afterEach(() => {
  server.answer = () => false
  server.authorization = null
})

const writeError =
  "echo 'fatal: write error: No space left on device' >&2; echo 'fatal: index-pack failed' >&2"
const gitProgram = () => execFileSync('which', ['git'], { encoding: 'utf8' }).trim()

/** Lets the shell run a script instead of the first run of a command of Git. */
function replaceOnce(command: string, script: string): void {
  const program = gitProgram()
  const mark = join(mkdtempSync(join(tmpdir(), 'svc-test-once-')), 'was-run')
  onTestFinished(() => rmSync(dirname(mark), { recursive: true }))
  replaceProgram(
    'git',
    `case "$*" in *' ${command} '*) if ! [ -e ${mark} ]; then : >${mark}; ${script}; fi;; esac
     exec ${program} "$@"`,
  )
}

describe('the URL of a source', () => {
  it.each([
    ['ftp://git.example.com/lib.git', 'the URL must begin with https:// or ssh://'],
    ['file:///etc', 'the URL must begin with https:// or ssh://'],
    ['/srv/lib.git', 'the URL must begin with https:// or ssh://'],
    ['ext::sh -c id', 'the URL must begin with https:// or ssh://'],
    ['git@git.example.com:acme/lib.git', 'write the URL as ssh://git@git.example.com/acme/lib.git'],
    ['https://alice:secret@git.example.com/lib.git', 'the URL must not contain credentials'],
    ['https://token@git.example.com/lib.git', 'the URL must not contain credentials'],
    ['ssh://git:secret@git.example.com/lib.git', 'the URL must not contain credentials'],
    ['https://-oProxyCommand=id/lib.git', 'the URL must be one such as'],
    ['ssh://-oProxyCommand=id@git.example.com/lib.git', 'the URL must be one such as'],
    ['ssh://git.example.com/-lib.git', 'the URL must be one such as'],
    ['https://git.example.com/../lib.git', 'the URL must be one such as'],
    ['https://git.example.com/lib.git?a=b', 'the URL must be one such as'],
    ['https://git.example.com/lib.git#a', 'the URL must be one such as'],
    ["https://git.example.com/lib';id;'.git", 'the URL must be one such as'],
    ['https://git.example.com:99999/lib.git', 'the URL must be one such as'],
    ['https://git.example.com./lib.git', 'the URL must be one such as'],
    [`https://git.example.com/${'a'.repeat(500)}`, 'the URL has more than 500 characters'],
  ])('%s is refused', async (url, reason) => {
    await expect(aSource(t, { url })).rejects.toThrow(reason)
  })

  it('may be on a private host, or without https, only if an operator adds the source', async () => {
    const git = server.repository('private')
    await expect(aSource(t, { url: git.url }, { by: background })).rejects.toThrow('OUTBOUND_HTTP')
    const url = git.url.replace('http:', 'https:')
    await expect(aSource(t, { url }, { by: background })).rejects.toThrow('OUTBOUND_PRIVATE_HOSTS')
    await expect(aSource(t, { url: 'https://192.168.0.1/lib.git' })).rejects.toThrow('OUTBOUND_PRIVATE_HOSTS')
  })

  it('has a token or a key of its own kind', async () => {
    const git = server.repository('kinds')
    await expect(aSource(t, { url: git.url, sshKey: 'x' })).rejects.toThrow(
      'a private key is for ssh:// only',
    )
    const ssh = { url: 'ssh://git@git.example.com/lib.git' }
    await expect(aSource(t, ssh)).rejects.toThrow('needs a private key')
    await expect(aSource(t, { ...ssh, secret: 'x', sshKey: 'x' })).rejects.toThrow(
      'a token is for https:// only',
    )
    await expect(aSource(t, { ...ssh, sshKey: 'x' })).rejects.toThrow('must be a private key')
    await expect(aSource(t, { url: git.url, secret: 'a\nb' })).rejects.toThrow('in one line')
    await expect(aSource(t, { url: git.url, path: '../x' })).rejects.toThrow('path must be a folder')
  })
})

describe('a Git server that is not friendly', () => {
  it('gets its failure stored and told once, and the versions stay', async () => {
    const git = server.repository('failing')
    git.commit(packageFiles('acme/failing'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url })
    await source.read()
    for (const [status, failure] of [
      [302, 'the server redirects'],
      [403, 'the server does not accept the credentials'],
      [404, 'the server has no such Git repository'],
      [500, 'cannot be reached'],
    ] as const) {
      server.answer = (_, response) => {
        response.writeHead(status, { location: 'http://localhost/elsewhere' }).end('<b>internal</b>')
        return true
      }
      server.requests.length = 0
      await source.readAgain()
      expect((await source.find())?.failure).toContain(failure)
      expect(server.requests).toHaveLength(1)
    }
    expect(await source.entries('acme/failing')).toHaveLength(1)
    const failures = { repositoryId: source.repository.id, action: 'fail-source' } as const
    expect(await eventsOf(t.db, failures, ['id'])).toHaveLength(1)
    server.answer = () => false
    await source.readAgain()
    expect(await source.find()).toMatchObject({ failure: null, failingSince: null })
  })

  it('is looked at again after its interval, and more seldom the longer it fails', async () => {
    const git = server.repository('seldom')
    git.commit(packageFiles('acme/seldom'))
    const source = await aSource(t, { url: git.url, everyMinutes: 15 })
    server.answer = (_, response) => {
      response.writeHead(500).end()
      return true
    }
    await source.read()
    expect(await minutesUntilLook(t.db, source.id)).toBeLessThan(16)
    await ageFailure(t.db, source.id, '2 hours')
    await source.readAgain()
    expect(Math.round(await minutesUntilLook(t.db, source.id))).toBe(120)
    await ageFailure(t.db, source.id, '2 days')
    await source.readAgain()
    expect(Math.round(await minutesUntilLook(t.db, source.id))).toBe(360)
  })

  it('keeps a row for each of its odd refs, and reads nothing of them twice', async () => {
    const git = server.repository('refs')
    const head = git.commit(packageFiles('acme/refs'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, branches: '' })
    let uploads = 0
    server.answer = (request, response) => {
      if (request.method === 'POST') uploads += 1
      if (request.method !== 'POST' || uploads % 2 === 0) return false
      request.resume()
      const names = [
        '1.0.0',
        '1.0.0\u202e',
        'a\u0001',
        'a\u0002',
        'a',
        `${'x'.repeat(400)}1`,
        `${'x'.repeat(400)}2`,
      ]
      response
        .writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' })
        .end(refList(names.map((name) => `${head} refs/tags/${name}`)))
      return true
    }
    await source.read()
    const before = await source.refs()
    expect(await source.find()).toMatchObject({ failure: null, counts: { published: 1, skipped: 5 } })
    expect(Object.keys(before).sort()).toEqual(
      ['1.0.0', '1.0.0[U+202E]', 'a', 'a[U+0001]', 'a[U+0002]', `${'x'.repeat(300)}…`].sort(),
    )
    uploads = 0
    await source.readAgain()
    expect(await source.refs()).toEqual(before)
    expect(uploads).toBe(1)
  })

  it.each([
    ['all tags together', 1],
    ['one tag alone, too', 2],
  ])('loses no version when the connection breaks off while it sends %s', async (_, times) => {
    const git = server.repository(`broken${times}`)
    for (const tag of ['1.0.0', '1.1.0'])
      git.commit({ ...packageFiles(`acme/broken${times}`), 'tag.txt': tag }, { tag })
    const source = await aSource(t, { url: git.url, branches: '' })
    let uploads = 0
    server.answer = (request, response) => {
      if (request.method === 'POST') uploads += 1
      if (request.method !== 'POST' || uploads === 1 || uploads > 1 + times) return false
      request.resume()
      response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' })
      response.write(Buffer.concat([packfile, packPart(endlessPack())]), () => response.destroy())
      return true
    }
    await source.read()
    const failure = times === 1 ? null : 'the connection to the server has broken off'
    expect(await source.find()).toMatchObject({ failure })
    expect(Object.keys(await source.refs())).toEqual(times === 1 ? ['1.0.0', '1.1.0'] : [])
    await queuePushed(t.db, source.id)
    await readSources(t)
    expect(await source.find()).toMatchObject({ failure: null, counts: { published: 2 } })
  })

  it('loses only the versions of objects that it has lost itself', async () => {
    const git = server.repository('lost')
    for (const tag of ['1.0.0', '1.1.0', '1.2.0'])
      git.commit({ ...packageFiles('acme/lost'), 'tag.txt': tag }, { tag })
    const lost = git.git('rev-parse', '1.1.0:tag.txt')
    rmSync(join(git.path, 'objects', lost.slice(0, 2), lost.slice(2)))
    const source = await aSource(t, { url: git.url, branches: '' })
    await source.read()
    expect(await source.refs()).toMatchObject({
      '1.0.0': { state: 'published' },
      '1.1.0': { state: 'refused', reason: 'the server cannot read its own objects' },
      '1.2.0': { state: 'published' },
    })
  })

  it('has no version of a commit that its list does not name', async () => {
    const git = server.repository('another')
    const first = git.commit(packageFiles('acme/another'))
    const second = git.commit({ 'a.txt': 'a' })
    git.git('tag', '--annotate', '--message', 'x', '1.0.0', second)
    const tag = git.git('rev-parse', '1.0.0')
    let uploads = 0
    server.answer = (request, response) => {
      if (request.method === 'POST') uploads += 1
      if (request.method !== 'POST' || uploads > 1) return false
      request.resume()
      response
        .writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' })
        .end(refList([`${tag} refs/tags/1.0.0 peeled:${first}`]))
      return true
    }
    const source = await aSource(t, { url: git.url })
    await source.read()
    expect((await source.refs())['1.0.0']).toMatchObject({
      state: 'refused',
      reason: 'the server lists another commit than it sends',
    })
  })

  it('does not lose its versions when it lists nothing any more', async () => {
    const git = server.repository('emptied')
    git.commit(packageFiles('acme/emptied'))
    const source = await aSource(t, { url: git.url })
    await source.read()
    git.git('--git-dir', git.path, 'update-ref', '-d', 'refs/heads/main')
    await source.readAgain()
    expect((await source.find())?.failure).toBe('it has no tags and branches any more')
    expect(await source.entries('acme/emptied', { isDev: true })).toHaveLength(1)
  })

  it('is left when the job ends: no process and no file stays', async () => {
    const git = server.repository('endless')
    git.commit(packageFiles('acme/endless'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, secret: 'endless-token' })
    let seen: string[] = []
    const stop = new AbortController()
    server.answer = (_, response) => {
      // It sends something for ever.
      response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-advertisement' })
      const sending = setInterval(() => response.write('000eversion 2\n'.repeat(10)), 10)
      response.once('close', () => clearInterval(sending))
      void listProcesses(git.url).then((found) => {
        seen = found
        stop.abort()
      })
      return true
    }
    const context = { config: t.config, db: t.db, log: openLog('silent') }
    await expect(readSourceJob.run(context, { sourceId: source.id }, stop.signal)).rejects.toThrow()
    expect(seen.join('\n')).toContain('ls-remote')
    expect(seen.join('\n')).not.toContain('endless-token')
    expect(seen.join('\n')).not.toContain(Buffer.from('x-access-token:endless-token').toString('base64'))
    expect(await listProcesses(git.url)).toEqual([])
    expect(readdirSync(join(t.config.dataDir, 'git'))).toEqual([])
  })
})

describe('a Git repository of a stranger', () => {
  it('runs nothing: neither hooks, filters, nor the configuration of the server', async () => {
    const git = server.repository('traps')
    const mark = join(t.config.dataDir, 'mark')
    git.commit({
      ...packageFiles('acme/traps'),
      '.gitattributes': '* filter=trap diff=trap\n*.php export-subst\n',
      '.gitconfig': `[filter "trap"]\n\tsmudge = touch ${mark}\n[core]\n\tfsmonitor = touch ${mark}\n`,
      'src/Hello.php': '<?php // $Format:%H$\n',
      'hooks/post-checkout': `#!/bin/sh\ntouch ${mark}\n`,
    })
    git.git('tag', '1.0.0')
    const source = await aSource(t, { url: git.url, branches: '' })
    await source.read()
    expect((await source.refs())['1.0.0']).toMatchObject({ state: 'published' })
    expect(existsSync(mark)).toBe(false)
  })

  it('is judged as an upload: a link out of the package is refused', async () => {
    const git = server.repository('link')
    git.commit(packageFiles('acme/link'))
    const target = execFileSync('git', ['-C', git.path, 'hash-object', '-w', '--stdin'], {
      input: '/etc/passwd',
    })
    const objectId = target.toString().trim()
    execFileSync('git', ['-C', git.path, 'tag', 'keep', objectId])
    git.git('update-index', '--add', '--cacheinfo', `120000,${objectId},passwd`)
    git.git('commit', '--quiet', '--message', 'A link')
    git.git('tag', '1.0.0')
    const source = await aSource(t, { url: git.url, tags: '1.*', branches: '' })
    await source.read()
    expect((await source.refs())['1.0.0']).toMatchObject({
      state: 'refused',
      reason: expect.stringContaining('passwd'),
    })
  })

  it('is judged as an upload: a composer.json that is a link, huge, or no UTF-8 is refused', async () => {
    const git = server.repository('manifests')
    const write = (input: string | Buffer) =>
      execFileSync('git', ['-C', git.path, 'hash-object', '-w', '--stdin'], { input }).toString().trim()
    const files = packageFiles('acme/manifests')
    git.commit({ ...files, 'real.json': files['composer.json'] ?? '' }, { tag: '1.0.0' })
    const huge = JSON.stringify({ name: 'acme/manifests', description: 'x'.repeat(5_000_000) })
    const objects = {
      '1.0.1': ['120000', write('real.json')],
      '1.0.2': ['120000', write('../../../../etc/passwd')],
      '1.0.3': ['100644', write(huge)],
      '1.0.4': ['100644', write(Buffer.from('{"name": "acme/manifests", "description": "\xff"}', 'latin1'))],
      '1.0.5': ['160000', git.git('rev-parse', 'HEAD')],
    } as const
    for (const [tag, [mode, id]] of Object.entries(objects)) {
      const entry = `${mode} ${mode === '160000' ? 'commit' : 'blob'} ${id}\tcomposer.json\n`
      const tree = execFileSync('git', ['-C', git.path, 'mktree'], { input: entry }).toString().trim()
      const author = ['-c', 'user.name=Alice', '-c', 'user.email=alice@example.com']
      const commit = execFileSync('git', ['-C', git.path, ...author, 'commit-tree', tree, '-m', 'x'])
      execFileSync('git', ['-C', git.path, 'update-ref', `refs/tags/${tag}`, commit.toString().trim()])
    }
    const source = await aSource(t, { url: git.url, branches: '' })
    await source.read()
    const refs = await source.refs()
    expect(refs['1.0.0']).toMatchObject({ state: 'published' })
    for (const tag of Object.keys(objects)) expect([tag, refs[tag]?.state]).toEqual([tag, 'refused'])
    expect(Object.keys(objects).map((tag) => refs[tag]?.reason)).toMatchInlineSnapshot(`
      [
        "invalid archive: "composer.json" must be a file, but is a link",
        "invalid archive: "composer.json" must be a file, but is a link",
        "archive too large: composer.json has more than 524288 bytes",
        "composer.json is not UTF-8",
        "invalid archive: composer.json is missing. Composer looks for composer.json at the top, or in the only folder there. The top level has "composer.json".",
      ]
    `)
    expect((await source.find())?.failure).toBeNull()
  })

  it('with malicious objects loses these versions, and the others are published', async () => {
    const git = server.repository('objects')
    git.commit(packageFiles('acme/objects'), { tag: '1.0.0' })
    // A tree with a folder .git, which git itself would not write.
    const blob = git.git('hash-object', '-w', 'composer.json')
    const entry = (mode: string, name: string, id: string) =>
      Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')])
    const write = (type: string, input: Buffer | string) =>
      execFileSync('git', ['-C', git.path, 'hash-object', '-t', type, '-w', '--stdin', '--literally'], {
        input,
      })
        .toString()
        .trim()
    const inner = write('tree', entry('100644', 'config', blob))
    const tree = write(
      'tree',
      Buffer.concat([entry('40000', '.git', inner), entry('100644', 'composer.json', blob)]),
    )
    const commit = write(
      'commit',
      `tree ${tree}\nauthor A <a@example.com> 1700000000 +0000\ncommitter A <a@example.com> 1700000000 +0000\n\nx\n`,
    )
    git.commit({ 'src/New.php': '<?php\n' }, { tag: '1.2.0' })
    execFileSync('git', ['-C', git.path, 'update-ref', 'refs/tags/1.1.0', commit])
    const source = await aSource(t, { url: git.url })
    await source.read()
    expect(await source.refs()).toMatchObject({
      '1.0.0': { state: 'published' },
      '1.1.0': { state: 'refused', reason: 'Git refuses its objects as damaged or malicious' },
      '1.2.0': { state: 'published' },
    })
  })

  it('that Git cannot look at as a whole is looked at one by one', async () => {
    const git = server.repository('apart')
    for (const tag of ['1.0.0', '1.1.0', '1.2.0'])
      git.commit({ ...packageFiles('acme/apart'), 'tag.txt': tag }, { tag })
    const refused = git.git('rev-parse', '1.1.0')
    // It fails when one of the objects is among those that it looks for.
    const program = gitProgram()
    replaceProgram(
      'git',
      `case "$*" in *cat-file*) ;; *) exec ${program} "$@";; esac
       input=; while read -r line; do input="$input$line
"; done
       case "$input" in *${refused}*) echo 'fatal: Out of memory' >&2; exit 128;; esac
       printf %s "$input" | ${program} "$@"`,
    )
    const source = await aSource(t, { url: git.url, branches: '' })
    await source.read()
    expect(await source.refs()).toMatchObject({
      '1.0.0': { state: 'published' },
      '1.1.0': { state: 'refused', reason: 'it is too large' },
      '1.2.0': { state: 'published' },
    })
  })

  it('has no version of an archive that Git does not finish, and leaves no part of it', async () => {
    const git = server.repository('unfinished')
    git.commit(packageFiles('acme/unfinished'), { tag: '1.0.0' })
    replaceOnce('archive', "echo PK; echo 'fatal: Out of memory' >&2; exit 128")
    const source = await aSource(t, { url: git.url, branches: '' })
    await source.read()
    expect((await source.refs())['1.0.0']).toMatchObject({ state: 'refused', reason: 'it is too large' })
    expect(readdirSync(join(t.config.dataDir, 'tmp'))).toEqual([])
  })

  it.each([
    ['is killed', 'has ended Git', 'archive', 'kill -KILL $$'],
    ['is stopped', 'has ended Git', 'archive', 'kill -TERM $$'],
    ['cannot be started', 'has ended Git', 'archive', 'exit 2'],
    ['finds a full disk', 'no space left', 'fetch', `${writeError}; exit 128`],
  ])('loses no version when Git %s', async (what, failure, command, script) => {
    const name = what.replaceAll(' ', '-')
    const git = server.repository(name)
    for (const tag of ['1.0.0', '1.1.0'])
      git.commit({ ...packageFiles(`acme/${name}`), 'tag.txt': tag }, { tag })
    replaceOnce(command, script)
    const source = await aSource(t, { url: git.url, branches: '' })
    await source.read()
    expect((await source.find())?.failure).toContain(failure)
    expect(await source.refs()).toEqual({})
    expect(readdirSync(join(t.config.dataDir, 'tmp'))).toEqual([])
    await queuePushed(t.db, source.id)
    await readSources(t)
    expect(await source.find()).toMatchObject({ failure: null, counts: { published: 2 } })
  })

  it('with thousands of tags is refused until a pattern chooses some', async () => {
    const git = server.repository('many')
    const commit = git.commit(packageFiles('acme/many'), { tag: '1.0.0' })
    const lines = Array.from({ length: 10_001 }, (_, i) => `${commit} refs/tags/0.0.${i}\n`).sort()
    writeFileSync(
      join(git.path, 'packed-refs'),
      `# pack-refs with: peeled fully-peeled sorted\n${lines.join('')}`,
    )
    const source = await aSource(t, { url: git.url })
    await source.read()
    expect((await source.find())?.failure).toContain('it has more than 10000 tags and branches')
    const chosen = await aSource(t, { url: git.url, tags: '1.*', branches: '' })
    await chosen.read()
    expect(await chosen.find()).toMatchObject({ failure: null, counts: { published: 1 } })
  })
})
