import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { background } from '../../src/domain/principal.ts'
import { readSourceJob } from '../../src/sources/read-source.ts'
import { openLog } from '../../src/web/server/log.ts'
import { useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import { refList } from '../support/git-protocol.ts'
import { listProcesses, packageFiles, sourcesHere, useGitServer } from '../support/git-server.ts'
import { aSource } from '../support/source-actors.ts'
import { ageFailure, minutesUntilLook } from '../support/source-rows.ts'

const t = useApp(sourcesHere)
const server = useGitServer()
afterEach(() => {
  server.answer = () => false
  server.authorization = null
})

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

  it('has no version of a commit that its list does not name', async () => {
    const git = server.repository('another')
    const first = git.commit(packageFiles('acme/another'))
    const second = git.commit({ 'a.txt': 'a' })
    git.git('tag', '--annotate', '--message', 'x', '1.0.0', second)
    git.push()
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
      void listProcesses('endless').then((found) => {
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
    expect(await listProcesses('endless')).toEqual([])
    expect(readdirSync(join(t.config.dataDir, 'git'))).toEqual([])
  })

  it('gets the token of its source, which nothing shows', async () => {
    const git = server.repository('token')
    git.commit(packageFiles('acme/token'), { tag: '1.0.0' })
    server.authorization = `Basic ${Buffer.from('x-access-token:the-token-itself').toString('base64')}`
    const wrong = await aSource(t, { url: git.url, secret: 'another-token-here' })
    await wrong.read()
    expect((await wrong.find())?.failure).toBe('the server does not accept the credentials, or needs some')
    const source = await aSource(t, { url: git.url, secret: 'the-token-itself\n' })
    await source.read()
    expect(await source.entries('acme/token')).toHaveLength(1)
    const stored = await Promise.all(
      ['source', 'source_ref', 'event', 'job'].map((table) => t.db.query(`select * from ${table}`)),
    )
    const shown = JSON.stringify([stored.map(({ rows }) => rows), await source.find(), t.log()])
    const secrets = [
      'the-token-itself',
      'another-token-here',
      source.hookSecret,
      server.authorization.slice(6),
    ]
    for (const secret of secrets) expect(shown).not.toContain(secret)
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
    git.push()
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
    git.git('fetch', '--quiet', git.path, 'main')
    execFileSync('git', ['-C', git.path, 'tag', 'keep', objectId])
    git.git('fetch', '--quiet', '--tags', 'origin')
    git.git('update-index', '--add', '--cacheinfo', `120000,${objectId},passwd`)
    git.git('commit', '--quiet', '--message', 'A link')
    git.git('tag', '1.0.0')
    git.push()
    const source = await aSource(t, { url: git.url, tags: '1.*', branches: '' })
    await source.read()
    expect((await source.refs())['1.0.0']).toMatchObject({
      state: 'refused',
      reason: expect.stringContaining('passwd'),
    })
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
    execFileSync('git', ['-C', git.path, 'update-ref', 'refs/tags/1.1.0', commit])
    const source = await aSource(t, { url: git.url })
    await source.read()
    expect(await source.refs()).toMatchObject({
      '1.0.0': { state: 'published' },
      '1.1.0': { state: 'refused', reason: 'Git refuses its objects as damaged or malicious' },
    })
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
