import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { transaction } from '../../../src/database/database.ts'
import type { Role, Visibility } from '../../../src/domain/permissions.ts'
import { operator } from '../../../src/domain/principal.ts'
import { deleteVersion } from '../../../src/packages/lifecycle/deletion.ts'
import { rollDownloadsJob } from '../../../src/packages/tables/downloads.ts'
import { saveDownloads } from '../../../src/packages/tables/recorded-downloads.ts'
import { version } from '../../../src/version.ts'
import { aMember, anAccount, aRepository, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { addPastDownloads, packageDownloadDays } from '../../support/download-rows.ts'
import { aMirroredPackage } from '../../support/mirrored-rows.ts'
import {
  addDependencies,
  addFirstVersions,
  addPackages,
  markQuarantined,
} from '../../support/package-rows.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { anUpstream } from '../../support/upstream-rows.ts'
import { aZip } from '../../support/zip.ts'

const t = useApp()
const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')

/** The zip of a package with some files. */
function aPackage(files: Record<string, string | Buffer> = {}, manifest: object = {}, folder = ''): Buffer {
  const all = { 'composer.json': JSON.stringify({ name: 'acme/lib', ...manifest }), ...files }
  return aZip(Object.fromEntries(Object.entries(all).map(([path, content]) => [folder + path, content])))
}

/** A signed-in developer with a package. */
async function aReader({ role = 'developer' as Role, visibility = 'private' as Visibility } = {}) {
  const publisher = await aPublisher(t, { visibility })
  const account = await anAccount(t.db)
  await aMember(t.db, account, publisher.repository, role)
  const cookie = await signIn(t.app, account)
  const home = `/${publisher.repository.path}/packages/acme/lib`
  const look = (tab = '') => t.app.inject({ url: home + tab, headers: { cookie } })
  return { ...publisher, account, home, look, cookie }
}

/** The HTML of a file without its colours. */
const textOf = (body: string) => body.replaceAll(/<\/?span[^>]*>/g, '')

describe('…/-/files', () => {
  it.each(['', 'lib-1.0.0/'])(
    'lists directories and shows text, in an archive with the folder %j',
    async (folder) => {
      const { push, look } = await aReader()
      const files = { 'src/Deep/A.php': '<?php echo "<b>";', 'src/B.php': '', 'README.md': '# Lib' }
      await push('1.0.0', { payload: aPackage(files, {}, folder) })
      const root = await look('/-/files')
      const names = (body: string) =>
        [...body.matchAll(/<tr><td><a [^>]+>([^<]+)<\/a>/g)].map(([, name]) => name)
      expect(names(root.body)).toEqual(['src/', 'README.md', 'composer.json'])
      expect(names((await look('/-/files?path=src')).body)).toEqual(['..', 'Deep/', 'B.php'])
      const file = await look('/-/files?path=src/Deep/A.php')
      expect(textOf(file.body)).toContain('&lt;?php echo &quot;&lt;b&gt;&quot;;')
      expect((await look('/-/files?path=src/B.php')).body).toContain('This file is empty.')
      for (const missing of ['src/C.php', '../composer.json', '/', 'src/', 'src/Deep/A.php/x', '%00']) {
        expect((await look(`/-/files?path=${missing}`)).statusCode, missing).toBe(404)
      }
      expect((await look('/-/files?version=9.9.9')).statusCode).toBe(404)
      for (const wrong of ['line=0', 'line=x', 'from=-1', 'path=a&path=b']) {
        expect((await look(`/-/files?${wrong}`)).statusCode, wrong).toBe(400)
      }
    },
  )

  it('shows no binary, no large file, and a long file in parts below 100 kB', async () => {
    const { push, look } = await aReader()
    const long = Array.from({ length: 9000 }, (_, i) => `<line number="${i + 1}">`)
    const files = {
      'a.bin': Buffer.from([0, 1, 2, 255]),
      'large.txt': Buffer.alloc(1024 * 1024 + 1, 'a'),
      'long.txt': long.join('\n'),
      'one.txt': '<'.repeat(200_000),
      'page.html': '<script>alert(1)</script>',
    }
    await push('1.0.0', { payload: aPackage(files) })
    expect((await look('/-/files?path=a.bin')).body).toContain('This file is not text.')
    expect((await look('/-/files?path=large.txt')).body).toContain('too large')
    expect((await look('/-/files?path=page.html')).body).not.toContain('<script>alert')
    expect(textOf((await look('/-/files?path=page.html')).body)).toContain('&lt;script&gt;alert(1)')
    expect(Buffer.byteLength((await look('/-/files?path=one.txt')).body)).toBeLessThan(100_000)
    const seen: string[] = []
    for (let url: string | null = '/-/files?path=long.txt'; url !== null; ) {
      const { body } = await look(url)
      expect(Buffer.byteLength(body)).toBeLessThan(100_000)
      seen.push(...[...body.matchAll(/&lt;line number=&quot;(\d+)/g)].map(([, line]) => String(line)))
      const [, line] = /[?&;]line=(\d+)"/.exec(body) ?? []
      url = line ? `/-/files?path=long.txt&line=${line}` : null
    }
    expect(seen).toEqual(long.map((_, i) => `${i + 1}`))
  })

  it('colours code, numbers its lines with links to them, and shows invisible characters', async () => {
    const { push, look } = await aReader()
    const code = `<?php\n/* two\nlines */\n$a = "x\u202ey\u200b" <=> '</span><b>';\n`
    await push('1.0.0', {
      payload: aPackage({ 'A.php': code, 'a.txt': code, 'phpunit.xml.dist': '<a b="c"/>' }),
    })
    const { body } = await look('/-/files?path=A.php')
    const lines = [...body.matchAll(/<span id="L(\d+)"><a href="#L(\d+)" tabindex="-1">(\d+)<\/a>(.*)/g)]
    expect(lines.map(([, id, link, number]) => [id, link, number].join())).toEqual([
      '1,1,1',
      '2,2,2',
      '3,3,3',
      '4,4,4',
    ])
    expect(lines[1]?.[4]).toBe('<span class="hljs-comment">/* two</span>')
    expect(lines[2]?.[4]).toBe('<span class="hljs-comment">lines */</span>')
    expect(textOf(body)).toContain(
      `&quot;x[U+202E]y[U+200B]&quot; &lt;=&gt; &#x27;&lt;/span&gt;&lt;b&gt;&#x27;;`,
    )
    const plain = (await look('/-/files?path=a.txt')).body
    expect(plain).not.toContain('hljs-')
    expect(plain).toContain('&#39;&lt;/span&gt;&lt;b&gt;&#39;;')
    expect((await look('/-/files?path=phpunit.xml.dist')).body).toContain('hljs-')
  })

  it('splits code into pages below 100 kB, with every line on one of them', async () => {
    const { push, look } = await aReader()
    // Comments get colours in the least time.
    const code = `<?php\n${Array.from({ length: 4000 }, (_, i) => `// This is line ${i}.`).join('\n')}\n`
    const one = `<?php ${'$a = [1, "x"]; '.repeat(8000)}`
    await push('1.0.0', { payload: aPackage({ 'A.php': code, 'One.php': one }) })
    expect(Buffer.byteLength((await look('/-/files?path=One.php')).body)).toBeLessThan(100_000)
    const seen: string[] = []
    for (let line: string | undefined = '1'; line !== undefined; ) {
      let body = ''
      const read = async () => {
        body = (await look(`/-/files?path=A.php&line=${line}`)).body
        return body
      }
      // On a busy machine, the colours may take longer than they have, and the page has none.
      await expect.poll(read).toContain('hljs-')
      expect(Buffer.byteLength(body)).toBeLessThan(100_000)
      seen.push(...[...body.matchAll(/id="L(\d+)"/g)].map(([, number]) => String(number)))
      line = /[?&;]line=(\d+)"/.exec(body)?.[1]
    }
    expect(seen).toEqual(Array.from({ length: 4001 }, (_, i) => `${i + 1}`))
  })

  it('shows a directory of many files in parts', async () => {
    const { push, look } = await aReader()
    const many = Object.fromEntries(Array.from({ length: 650 }, (_, i) => [`many/${i + 1000}.txt`, 'x']))
    await push('1.0.0', { payload: aPackage(many) })
    const first = await look('/-/files?path=many')
    expect(Buffer.byteLength(first.body)).toBeLessThan(100_000)
    expect(first.body).toContain('1000.txt')
    expect(first.body).toContain('from=300')
    expect((await look('/-/files?path=many&from=600')).body).toContain('1649.txt')
  })

  it('serves images in a sandbox, and nothing else', async () => {
    const { push, look } = await aReader()
    const files = {
      'logo.png': png,
      'logo.svg': '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
      'false.png': '<html><script>alert(1)</script></html>',
      'page.html': '<script>alert(1)</script>',
      'huge.png': Buffer.concat([png, Buffer.alloc(2 * 1024 * 1024)]),
    }
    await push('1.0.0', { payload: aPackage(files) })
    for (const [path, type] of [
      ['logo.png', 'image/png'],
      ['logo.svg', 'image/svg+xml'],
    ]) {
      const image = await look(`/-/files/image?version=1.0.0&path=${path}`)
      expect(image.statusCode).toBe(200)
      expect(image.headers['content-type']).toBe(type)
      expect(image.headers['content-security-policy']).toBe("sandbox; default-src 'none'")
      expect(image.headers['x-content-type-options']).toBe('nosniff')
      expect(image.headers['cache-control']).toMatch(/^private/)
    }
    expect((await look('/-/files/image?path=logo.png')).rawPayload).toEqual(png)
    for (const path of ['false.png', 'page.html', 'huge.png', 'composer.json', 'none.png', '']) {
      expect((await look(`/-/files/image?path=${path}`)).statusCode, path).toBe(404)
    }
  })

  it('shows nothing to those who may not see the repository, and no files of a quarantined version to guests', async () => {
    const { push, home, look, repository } = await aReader({ role: 'guest' })
    await push('1.0.0', { payload: aPackage({ 'logo.png': png }) })
    const tabs = [
      'files',
      'files/image?path=logo.png',
      'compare',
      'dependencies',
      'dependents',
      'activity',
      'versions',
    ]
    for (const tab of tabs) {
      expect((await t.app.inject(`${home}/-/${tab}`)).statusCode, tab).toBe(404)
      expect((await look(`/-/${tab}`)).statusCode, tab).toBe(200)
    }
    await markQuarantined(t.db, repository, 'A secret')
    for (const tab of ['files', 'files/image?path=logo.png', 'compare']) {
      expect((await look(`/-/${tab}`)).statusCode, tab).toBe(403)
    }
    const developer = await anAccount(t.db)
    await aMember(t.db, developer, repository, 'developer')
    const cookie = await signIn(t.app, developer)
    expect((await t.app.inject({ url: `${home}/-/files`, headers: { cookie } })).statusCode).toBe(200)
  })

  it('says so when the archive is damaged', async () => {
    const { push, look } = await aReader()
    const { sha256 } = (await push('1.0.0', { payload: aPackage({ 'bad.txt': 'bad' }) })).json()
    await writeFile(join(t.config.dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`), 'PK damaged')
    for (const tab of ['files', 'files/image?path=a.png', 'compare?from=1.0.0&to=1.0.0', 'download']) {
      expect((await look(`/-/${tab}`)).statusCode, tab).toBe(404)
    }
  })

  it('says so when the archive is gone', async () => {
    const { push, look } = await aReader()
    const { sha256 } = (await push('1.0.0', { payload: aPackage({ 'gone.txt': 'gone' }) })).json()
    await rm(join(t.config.dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`))
    const page = await look('/-/files')
    expect(page.statusCode).toBe(404)
    expect(page.body).toContain('no longer stored')
  })
})

describe('…/-/compare', () => {
  it('shows the files and the values of composer.json that differ', async () => {
    const { push, look } = await aReader()
    const before = aPackage(
      { 'a.txt': 'a', 'b.txt': 'b', 'c.txt': 'c' },
      { require: { 'acme/x': '^1' } },
      'one/',
    )
    const after = aPackage(
      { 'a.txt': 'a', 'b.txt': 'B', 'd.txt': 'd' },
      { require: { 'acme/x': '^2' }, type: 'library' },
    )
    await push('1.0.0', { payload: before })
    expect((await look('/-/compare')).body).toContain('only one version')
    await push('1.1.0', { payload: after })
    const compared = await look('/-/compare')
    // A narrow column breaks the name of a field after its parts.
    expect(compared.body).toContain('require.<wbr>acme/<wbr>x<wbr></th>')
    const body = compared.body.replaceAll('<wbr>', '')
    const [requirements = '', manifest = '', files = ''] = body.split('<h2>').slice(1)
    expect(requirements).toMatch(
      /require\.acme\/x<\/th><td><code>&quot;\^1&quot;<\/code><\/td><td><code>&quot;\^2&quot;/,
    )
    expect(manifest).toMatch(/type<\/th><td><span class="muted">not set/)
    expect(manifest).not.toContain('acme/x')
    expect(files).toContain('2 changed, 1 added, 1 removed')
    const shown = Array.from(files.matchAll(/<summary><span class="path">([^<]+)</g), ([, path]) => path)
    expect(shown).toEqual(['composer.json', 'b.txt', 'd.txt'])
    expect(files).toMatch(/b\.txt<[^§]*<del data-line="1 −">b\n<\/del>[^§]*<ins data-line="1 \+">B\n<\/ins>/)
    expect(files).toMatch(/d\.txt<\/span> <span class="badge">added<[^§]*<ins data-line="1 \+">d\n/)
    expect(files).toMatch(/<h3>Removed<\/h3>[^§]*>c\.txt<\/a>/)
    expect(body).not.toContain('a.txt')
    const reverse = await look('/-/compare?from=1.1.0&to=1.0.0')
    expect(reverse.body).toMatch(/c\.txt<\/span> <span class="badge">added</)
    expect((await look('/-/compare?from=1.1.0&to=9.9.9')).statusCode).toBe(404)
    const same = await look('/-/compare?from=1.1.0&to=1.1.0')
    expect(same.body.match(/No differences\./g)).toHaveLength(3)
  })

  it('compares with the previous stable version, unless another one is chosen', async () => {
    const { push, look } = await aReader()
    const chosen = async (query = '') =>
      Array.from(
        (await look(`/-/compare${query}`)).body.matchAll(/<option value="([^"]+)" selected>/g),
        ([, version]) => version,
      )
    for (const version of ['1.0.0-beta.1', '1.0.0-beta.2'])
      await push(version, { payload: aPackage({ 'a.txt': version }) })
    expect(await chosen()).toEqual(['1.0.0-beta.1', '1.0.0-beta.2'])
    for (const version of ['1.0.0', '1.1.0-beta.1', '1.1.0', '1.2.0-some'])
      await push(version, { payload: aPackage({ 'a.txt': version }) })
    expect(await chosen()).toEqual(['1.0.0', '1.1.0'])
    expect(await chosen('?to=1.1.0-beta.1')).toEqual(['1.0.0', '1.1.0-beta.1'])
    expect(await chosen('?to=1.2.0-some')).toEqual(['1.1.0', '1.2.0-some'])
    expect(await chosen('?from=1.1.0-beta.1')).toEqual(['1.1.0-beta.1', '1.1.0'])
  })

  it('shows the part of the changelog about the versions', async () => {
    const { push, look } = await aReader()
    await push('1.0.0', { payload: aPackage({}) })
    expect((await look('/-/compare?from=1.0.0&to=1.0.0')).body).not.toContain('Changelog')
    const changelog =
      '# Changes\n\n## 1.1.0\n\nSee [the guide](docs/guide.md) <script>\n\n## 1.0.0\n\nThe first one'
    await push('1.1.0', { payload: aPackage({ 'ChangeLog.md': changelog }) })
    const { body } = await look('/-/compare')
    const [, shown = ''] = /<h2 id="changelog">Changelog<\/h2>([^§]*?)<\/aside>/.exec(body) ?? []
    expect(shown).toContain('<a href="')
    expect(shown).toContain('/-/files?version=1.1.0&amp;path=docs%2Fguide.md">the guide</a> &lt;script&gt;')
    expect(shown).not.toContain('The first one')
  })

  it('says why lines are not shown, and keeps the page small', async () => {
    const { push, look } = await aReader()
    const noise = (seed: number) =>
      Array.from({ length: 20_000 }, (_, i) => `${(i * 7919 * seed) % 100_003}`).join('\n')
    const many = (text: string) =>
      Object.fromEntries(
        Array.from({ length: 130 }, (_, i) => [
          `src/${i}.php`,
          `<?php\n${`// ${text} & "${i}"\n`.repeat(20)}`,
        ]),
      )
    await push('1.0.0', {
      payload: aPackage({
        'a.png': png,
        'big.txt': 'a'.repeat(600_000),
        'noise.txt': noise(1),
        ...many('old'),
      }),
    })
    await push('1.1.0', {
      payload: aPackage({
        'a.png': Buffer.concat([png, png]),
        'big.txt': 'b'.repeat(600_000),
        'noise.txt': noise(2),
        ...many('new'),
      }),
    })
    const page = await look('/-/compare')
    for (const why of ['This file is not text.', 'too large to compare', 'too many changes to compare'])
      expect(page.body).toContain(why)
    expect(Buffer.byteLength(page.body)).toBeLessThan(100_000)
    const [, more = ''] = /<h3>More files with changes<\/h3>[^§]*?<a href="([^"]+)"/.exec(page.body) ?? []
    expect(page.body).toMatch(/and \d+ more/)
    const own = await look(more.replaceAll('&amp;', '&').replace(/^.*(?=\/-\/)/, ''))
    expect(own.body.match(/<summary>/g)).toHaveLength(1)
    expect(own.body.match(/<ins /g)).toHaveLength(20)
    expect((await look('/-/compare?path=nothing')).statusCode).toBe(404)
  })
})

describe('…/-/compare of two versions that Composer reads as branches', () => {
  it('shows what differs', async () => {
    const { push, look } = await aReader()
    const changelog = '# Changes\n\n## 1.0.0\n\nFirst'
    await push('1.0.0-one', { payload: aPackage({ 'a.txt': '1', 'CHANGELOG.md': changelog }) })
    await push('1.0.0-two', { payload: aPackage({ 'a.txt': '2', 'CHANGELOG.md': changelog }) })
    const { statusCode, body } = await look('/-/compare?from=1.0.0-one&to=1.0.0-two')
    expect([statusCode, body.includes('1 changed, 0 added, 0 removed')]).toEqual([200, true])
  })
})

describe('…/-/compare without a version to compare with', () => {
  it('skips quarantined versions for those who may not see their files', async () => {
    const { push, home, look, repository } = await aReader({ role: 'guest' })
    await push('1.0.0', { payload: aPackage({ 'first.txt': '1' }) })
    await push('1.1.0', { payload: aPackage({ 'second.txt': '2' }) })
    await push('1.2.0', { payload: aPackage({ 'third.txt': '3' }) })
    const quarantine = (version: string) => markQuarantined(t.db, repository, 'A secret', { version })
    await quarantine('1.1.0')
    const page = await look('/-/compare')
    expect([page.statusCode, page.body.includes('first.txt'), page.body.includes('second.txt')]).toEqual([
      200,
      true,
      false,
    ])
    expect((await look('/-/compare?from=1.1.0')).statusCode).toBe(403)
    const developer = await anAccount(t.db)
    await aMember(t.db, developer, repository, 'developer')
    const cookie = await signIn(t.app, developer)
    const seen = await t.app.inject({ url: `${home}/-/compare?from=1.1.0`, headers: { cookie } })
    expect(seen.body).toContain('second.txt')
    await quarantine('1.0.0')
    const none = (await look('/-/compare')).body
    expect(none).toContain('There is no older version to compare with. Choose another one.')
    expect(none).toContain('<select id="from"')
    expect(none).not.toContain('only one version')
  })

  it('offers the other versions when the oldest one is chosen', async () => {
    const { push, look } = await aReader()
    for (const version of ['1.0.0', '1.1.0', '1.2.0']) {
      await push(version, { payload: aPackage({ 'a.txt': version }) })
    }
    const { body } = await look('/-/compare?to=1.0.0')
    expect(body).toContain('There is no older version to compare with. Choose another one.')
    const chosen = Array.from(body.matchAll(/<option value="([^"]+)" selected>/g), ([, version]) => version)
    expect(chosen).toEqual(['1.2.0', '1.0.0'])
    expect((await look('/-/compare?from=1.2.0&to=1.0.0')).body).toContain('<h2>Files</h2>')
  })
})

describe('…/-/dependencies and …/-/dependents', () => {
  it('links requirements that the reader may see, and lists the dependents of those repositories', async () => {
    const { push, look, repository, account, home } = await aReader()
    const shared = await aPublisher(t, { visibility: 'public' })
    const hidden = await aPublisher(t)
    const require = {
      'acme/lib': '^1.0',
      'acme/shared': '^2',
      'acme/hidden': '^3',
      'acme/nowhere': '^4',
      php: '*',
    }
    await push('1.0.0', {
      name: 'acme/lib',
      manifest: { require: { 'acme/shared': '^2', 'acme/hidden': '^3' } },
    })
    await shared.push('2.0.0', { name: 'acme/shared', manifest: { require } })
    await hidden.push('3.0.0', { name: 'acme/hidden', manifest: { require } })
    const upstreamId = await anUpstream(t.db, repository, { name: 'up', url: 'https://up.test' })
    await aMirroredPackage(t.db, repository, 'acme/hidden', { upstreamId })
    const { body } = await look('/-/dependencies')
    expect(body).toContain(`href="/${shared.repository.path}/packages/acme/shared"`)
    expect(body).toContain(`href="/${repository.path}/packages/acme/hidden"`)
    expect(body).not.toContain(hidden.repository.path)

    const dependents = async () => (await look('/-/dependents')).body
    expect(await dependents()).toContain(`href="/${shared.repository.path}/packages/acme/shared"`)
    expect(await dependents()).not.toContain('acme/hidden')
    await aMember(t.db, account, hidden.repository, 'guest')
    expect(await dependents()).toContain(`href="/${hidden.repository.path}/packages/acme/hidden"`)
    // A later version no longer requires the package. After the earlier version is the latest again, it does.
    await hidden.push('3.1.0', { name: 'acme/hidden', manifest: { require: { php: '*' } } })
    expect(await dependents()).not.toContain('acme/hidden')
    await deleteVersion(t.db, {
      repositoryId: hidden.repository.id,
      packageName: 'acme/hidden',
      version: '3.1.0',
      by: operator,
      baseUrl: t.config.baseUrl,
    })
    expect(await dependents()).toContain('acme/hidden')
    expect((await t.app.inject(`${home}/-/dependents`)).statusCode).toBe(404)
  })

  it('pages through more dependents than fit on one page', async () => {
    const { push, look } = await aReader()
    await push('1.0.0')
    const many = await aRepository(t.db, { visibility: 'public' })
    const dependents = Array.from({ length: 120 }, (_, i) => `many/p${i + 1}`)
    await addPackages(t.db, many, dependents)
    const require = { 'Acme/lib': '^1', php: '*', n: 1 }
    await addFirstVersions(t.db, many, { require, 'require-dev': [] })
    expect((await look('/-/dependents')).body).not.toContain('many/p')
    await addDependencies(t.db)
    const names: string[] = []
    for (let query = ''; ; ) {
      const { body } = await look(`/-/dependents${query}`)
      names.push(...[...body.matchAll(/\/packages\/(many\/p\d+)"/g)].map(([, name]) => String(name)))
      const next = /dependents(\?after=[\d-]+)"/.exec(body)
      if (!next) break
      query = String(next[1])
    }
    expect(new Set(names).size).toBe(120)
    expect(names).toHaveLength(120)
  })
})

describe('…/-/activity', () => {
  it('shows the events of the package, and only admins see client IPs', async () => {
    const { push, look, repository, home } = await aReader({ role: 'guest' })
    await push('1.0.0')
    await push('1.0.0', { name: 'acme/other' })
    const { body } = await look('/-/activity')
    expect(body).toContain('Published</strong> <code>1.0.0</code>')
    expect(body.match(/<tr>/g)).toHaveLength(2)
    expect(body).not.toContain('127.0.0.1')
    const admin = await anAccount(t.db)
    await aMember(t.db, admin, repository, 'admin')
    const cookie = await signIn(t.app, admin)
    const seen = await t.app.inject({ url: `${home}/-/activity`, headers: { cookie } })
    expect(seen.body).toContain('127.0.0.1')
  })
})

describe('…/-/downloads', () => {
  it('tells admins who downloaded which version, and nobody else', async () => {
    const { push, look, repository, home } = await aReader()
    await push('1.0.0')
    await push('1.1.0')
    const admin = await anAccount(t.db)
    await aMember(t.db, admin, repository, 'admin')
    const cookie = await signIn(t.app, admin)
    const seenByAdmin = async (tab = '') =>
      (await t.app.inject({ url: `${home}${tab}`, headers: { cookie } })).body
    expect(await seenByAdmin('/-/downloads')).toContain('Nobody has downloaded this package yet.')
    const by = { kind: 'session', id: admin.id, accountId: admin.id } as const
    const nobody = { kind: 'anonymous', id: '0', accountId: null } as const
    const one = { repositoryId: repository.id, packageName: 'acme/lib' }
    await saveDownloads(t.db, [
      { ...one, version: '1.0.0', downloader: by, count: 1234 },
      { ...one, version: '1.1.0', downloader: nobody, count: 1 },
      { ...one, packageName: 'acme/other', version: '2.0.0', downloader: by, count: 5 },
    ])
    const rowsOf = (body: string) =>
      [
        ...body.matchAll(
          /<th scope="row">([^<]+)<\/th>\s*<td[^>]*><code>([^<]+)<.*\s*.*\s*<td[^>]*>([\d,]+)</g,
        ),
      ].map(([, ...cells]) => cells.join(' '))
    expect(rowsOf(await seenByAdmin('/-/downloads'))).toEqual([
      'anonymous 1.1.0 1',
      `${admin.username} in the browser 1.0.0 1,234`,
    ])
    const ofVersion = await seenByAdmin('/-/downloads?version=1.0.0')
    expect(rowsOf(ofVersion)).toEqual([`${admin.username} in the browser 1.0.0 1,234`])
    // The footer has the version of svc, and not that of the package.
    expect(ofVersion).toContain(`<li>svc ${version}</li>`)
    const link = 'Who downloaded it'
    expect([await seenByAdmin(), await seenByAdmin('/-/versions')]).toEqual([
      expect.stringContaining(link),
      expect.stringContaining(link),
    ])
    expect([(await look()).body, (await look('/-/versions')).body].join('')).not.toContain(link)
    expect((await look('/-/downloads')).statusCode).toBe(403)
  })
})

describe('downloads of a package', () => {
  it('are drawn by day and by version, with a table', async () => {
    const { push, look, repository } = await aReader()
    await push('1.0.0')
    await push('1.1.0')
    expect((await look()).body).toContain('No downloads yet.')
    // For a transaction, the day stays the one in which it began. The page may be a day later.
    await transaction(t.db, async (tx) => {
      const count = (version: string, ago: number, downloads: number) =>
        addPastDownloads(tx, { repositoryId: repository.id, version }, [[ago, downloads]])
      await count('1.0.0', 0, 3)
      await count('1.0.0', 0, 4)
      await count('1.1.0', 0, 1000)
      await count('1.1.0', 28, 20)
      await count('1.1.0', 40, 5)
    })
    const { body } = await look()
    expect(body).toContain('aria-label="Last 30 days, in UTC: 1,027, at most 1,007"')
    expect(body).toContain('aria-label="Newest 2 versions: 1,032, at most 1,025"')
    expect(body).toMatch(/<th scope="row">1\.0\.0<\/th><td class="number">7</)
    const widths = [...body.matchAll(/<rect x="[\d.]+" width="([\d.]+)"/g)].map(([, width]) => Number(width))
    expect(widths).toEqual([...Array(30).fill(16), 40, 40])
    expect(body).toContain('<span>1.0.0</span><span>1.1.0</span>')
    expect(body).not.toContain('style=')
  })

  it('of days that are no longer kept are removed', async () => {
    const { push, repository } = await aReader()
    await push('1.0.0')
    await addPastDownloads(t.db, { repositoryId: repository.id, version: '1.0.0' }, [
      [1, 1],
      [100, 1],
    ])
    const { db, config, app } = t
    await rollDownloadsJob.run({ db, config, log: app.log }, {}, new AbortController().signal)
    const kept = await packageDownloadDays(t.db, repository)
    expect(kept).toHaveLength(1)
    expect(kept[0]).toBeLessThan(100)
  })
})

describe('…/-/download', () => {
  it('sends the zip to readers, and none of a quarantined version', async () => {
    const { push, look, home, cookie, repository } = await aReader({ role: 'guest' })
    const payload = aPackage()
    await push('1.0.0', { payload })
    const zip = await look('/-/download?version=1.0.0')
    expect(zip.rawPayload).toEqual(payload)
    expect(zip.headers['content-disposition']).toBe('attachment; filename="acme-lib-1.0.0.zip"')
    const head = await t.app.inject({ method: 'HEAD', url: `${home}/-/download`, headers: { cookie } })
    expect(head.headers['content-length']).toBe(`${payload.length}`)
    expect((await t.app.inject(`${home}/-/download`)).statusCode).toBe(404)
    await markQuarantined(t.db, repository, 'A backdoor')
    expect((await look('/-/download?version=1.0.0')).statusCode).toBe(410)
  })
})

describe('…/-/badge/*.svg', () => {
  it('draws version, downloads and license of a public package, and can be cached', async () => {
    const { push, home, look } = await aReader({ visibility: 'public' })
    await push('1.0.0', { manifest: { license: ['MIT', 'Apache-2.0'] } })
    const badge = (name: string, headers = {}) => t.app.inject({ url: `${home}/-/badge/${name}`, headers })
    const version = await badge('version.svg')
    expect(version.headers['content-type']).toBe('image/svg+xml')
    expect(version.headers['cache-control']).toBe('public, max-age=300')
    expect(version.headers['content-security-policy']).toBe("sandbox; default-src 'none'")
    expect(version.body).toContain('aria-label="version: 1.0.0"')
    expect((await badge('downloads.svg')).body).toContain('downloads: 0')
    expect((await badge('license.svg')).body).toContain('license: MIT, Apache-2.0')
    const again = await badge('version.svg', { 'if-none-match': version.headers.etag })
    expect(again.statusCode).toBe(304)
    for (const name of ['other.svg', 'constructor', '__proto__', 'toString'])
      expect((await badge(name)).statusCode).toBe(404)
    expect((await look()).body).toContain('/-/badge/version.svg')
  })

  it('does not exist for a private repository, not even for its members', async () => {
    const { push, look } = await aReader()
    await push('1.0.0')
    expect((await look('/-/badge/version.svg')).statusCode).toBe(404)
    expect((await look()).body).not.toContain('/-/badge/')
  })
})
