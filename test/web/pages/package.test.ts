import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { aMirroredPackage } from '../../support/mirrored-rows.ts'
import { anAdvisory, copyVersion, markAbandoned, markQuarantined } from '../../support/package-rows.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { dropRows } from '../../support/rows.ts'
import { anUpstream } from '../../support/upstream-rows.ts'
import { aZip } from '../../support/zip.ts'

describe('GET /<group>/<name>/packages/<vendor>/<package>', () => {
  const t = useApp()

  /** A package with three versions. Returns a function that opens its page. */
  async function aPackage() {
    const publisher = await aPublisher(t)
    const manifest = {
      description: 'Counts things',
      license: 'MIT',
      homepage: 'https://acme.example/lib',
      require: { php: '>=8.2' },
      'require-dev': { 'phpunit/phpunit': '^11' },
    }
    for (const version of ['1.0.0', '1.1.0', '2.0.0-foo']) await publisher.push(version, { manifest })
    const cookie = await signIn(t.app, publisher.account)
    const path = `/${publisher.repository.path}/packages/acme/lib`
    const look = (query = '') => t.app.inject({ url: path + query, headers: { cookie } })
    return { ...publisher, path, look }
  }

  it('shows versions, requirements and how to install the newest release', async () => {
    const { account, look } = await aPackage()
    const { body, statusCode } = await look()
    expect(statusCode).toBe(200)
    expect(body).toContain('composer require acme/lib<')
    expect(body).toContain('href="https://acme.example/lib"')
    const versions = [...body.matchAll(/<option value="([^"]+)"/g)].map(([, version]) => version)
    expect(versions).toEqual(['1.1.0', '1.0.0', '2.0.0-foo'])
    expect(body).toContain(`>${account.username}<`)
    expect(body).toContain('<li>php <code>&gt;=8.2</code></li>')
    expect(body).not.toContain('phpunit/phpunit')
    const dependencies = (await look('/-/dependencies')).body
    expect(dependencies).toContain('phpunit/phpunit')
    expect(dependencies).toContain('&gt;=8.2')
  })

  it('shows the first ten requirements, and where the others are', async () => {
    const { push, account, repository } = await aPublisher(t)
    const names = Array.from({ length: 12 }, (_, number) => `acme/part-${number + 1}`)
    await push('1.0.0', { manifest: { require: Object.fromEntries(names.map((name) => [name, '*'])) } })
    const cookie = await signIn(t.app, account)
    const { body } = await t.app.inject({
      url: `/${repository.path}/packages/acme/lib`,
      headers: { cookie },
    })
    const shown = [...body.matchAll(/<li>(acme\/part-\d+) <code>\*<\/code>/g)].map(([, name]) => name)
    expect(shown).toEqual(names.slice(0, 10))
    expect(body).toContain('/-/dependencies?version=1.0.0">and 2 more</a>')
  })

  it('links the requirements beside the README that the reader may see', async () => {
    const { push, repository, look } = await aPackage()
    const hidden = await aPublisher(t)
    await push('1.0.0', { name: 'acme/part' })
    await hidden.push('1.0.0', { name: 'acme/hidden' })
    await push('3.0.0', { manifest: { require: { 'acme/part': '^1', 'acme/hidden': '^1', php: '*' } } })
    const { body } = await look()
    expect(body).toContain(
      `<li><a href="/${repository.path}/packages/acme/part">acme/part</a> <code>^1</code>`,
    )
    expect(body).toContain('<li>acme/hidden <code>')
    expect(body).toContain('<li>php <code>')
  })

  it('shows where users get help', async () => {
    const { push, look } = await aPackage()
    const support = {
      issues: 'https://acme.example/issues?a=1&b=2',
      docs: 'https://acme.example/docs',
      irc: 'ircs://irc.acme.example/lib',
      email: 'help@acme.example',
      source: 'https://acme.example/source',
      forum: 'javascript:alert(1)',
    }
    await push('3.0.0', { manifest: { support } })
    const { body } = await look()
    const [, shown = ''] = /<dt>Support<\/dt><dd>(.*?)<\/dd>/.exec(body) ?? []
    expect(
      Array.from(shown.matchAll(/href="([^"]*)"[^>]*>([^<]*)</g), ([, url, title]) => [title, url]),
    ).toEqual([
      ['Issues', 'https://acme.example/issues?a=1&amp;b=2'],
      ['Documentation', 'https://acme.example/docs'],
      ['IRC', 'ircs://irc.acme.example/lib'],
      ['Email', 'mailto:help@acme.example'],
    ])
    expect(body).toContain('<dt>Source</dt><dd><a href="https://acme.example/source"')
  })

  it('shows an older version, and how to require one that Composer knows by another name', async () => {
    const { look } = await aPackage()
    expect((await look('?version=1.0.0')).body).toContain('composer require acme/lib:1.0.0')
    expect((await look('?version=2.0.0-foo')).body).toContain('composer require acme/lib:dev-2.0.0-foo')
  })

  it('shows the newest release before a newer pre-release, and says how to require either', async () => {
    const { push, account, repository } = await aPublisher(t)
    const cookie = await signIn(t.app, account)
    const look = async (path: string) =>
      (await t.app.inject({ url: `/${repository.path}${path}`, headers: { cookie } })).body
    await push('2.0.0-beta.1')
    expect(await look('/packages/acme/lib')).toContain('composer require acme/lib:2.0.0-beta.1<')
    expect(await look('/-/setup')).toContain('composer require vendor/package<')
    for (const version of ['1.0.0', '1.1.0-RC.1']) await push(version)
    expect(await look('/packages/acme/lib')).toContain('composer require acme/lib<')
    expect(await look('/packages/acme/lib')).toContain('<span class="badge good">latest 1.0.0</span>')
    expect(await look('/packages/acme/lib?version=2.0.0-beta.1')).toContain('>prerelease<')
    expect(await look('/packages/acme/lib?version=2.0.0-beta.1')).toContain('acme/lib:2.0.0-beta.1<')
    expect(await look('/-/setup')).toContain('composer require acme/lib<')
    await markQuarantined(t.db, repository, 'x', { version: '1.0.0' })
    expect(await look('/packages/acme/lib')).toContain('composer require acme/lib:2.0.0-beta.1<')
  })

  it.each([
    ['at the top', ''],
    ['in the only folder', 'lib-1.0.0/'],
  ])('shows the README beside composer.json %s', async (_where, folder) => {
    const { repository, push, account } = await aPublisher(t)
    const payload = aZip({
      [`${folder}composer.json`]: JSON.stringify({ name: 'acme/lib' }),
      [`${folder}README.md`]: '# Lib <script>alert(1)</script>\n',
      [`${folder}docs/README.md`]: 'Not this one',
    })
    expect((await push('1.0.0', { payload })).statusCode).toBe(201)
    const cookie = await signIn(t.app, account)
    const { body } = await t.app.inject({ url: `/${repository.path}/packages/acme/lib`, headers: { cookie } })
    expect(body).toContain('<h3>Lib &lt;script&gt;alert(1)&lt;/script&gt;</h3>')
    expect(body).not.toContain('Not this one')
  })

  it('links from the README to files of the archive, and shows its images', async () => {
    const { repository, push, account } = await aPublisher(t)
    const payload = aZip({
      'composer.json': JSON.stringify({ name: 'acme/lib' }),
      'README.md': '[Guide](docs/guide.md) ![Logo](logo.svg) ![Far](https://far.test/x.png)',
      'docs/guide.md': 'The guide',
      'logo.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>',
    })
    await push('1.0.0', { payload })
    const cookie = await signIn(t.app, account)
    const look = (url: string) => t.app.inject({ url, headers: { cookie } })
    const { body } = await look(`/${repository.path}/packages/acme/lib`)
    const follow = (pattern: RegExp) => look(String(pattern.exec(body)?.[1]).replaceAll('&amp;', '&'))
    expect((await follow(/<a href="([^"]+)">Guide/)).body).toContain('The guide')
    expect((await follow(/<img src="([^"]+)" alt="Logo"/)).headers['content-type']).toBe('image/svg+xml')
    expect(body).not.toMatch(/<img[^>]+far\.test/)
    expect(body).toContain('>Far</a>')
  })

  it('shows a README that is not in Markdown as text', async () => {
    const { repository, push, account } = await aPublisher(t)
    const files = { 'composer.json': JSON.stringify({ name: 'acme/lib' }), 'README.txt': '# Lib <b>1</b>\n' }
    await push('1.0.0', { payload: aZip(files) })
    const cookie = await signIn(t.app, account)
    const { body } = await t.app.inject({ url: `/${repository.path}/packages/acme/lib`, headers: { cookie } })
    expect(body).toContain('# Lib &lt;b&gt;1&lt;/b&gt;')
  })

  it('shows the README of an earlier release’s version too, and reads its archive for it once', async () => {
    const { repository, push, account } = await aPublisher(t)
    const payload = aZip({ 'composer.json': JSON.stringify({ name: 'acme/lib' }), 'README.md': '# Lib' })
    const { sha256 } = (await push('1.0.0', { payload })).json()
    const archive = join(t.config.dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`)
    const cookie = await signIn(t.app, account)
    const look = async () =>
      (await t.app.inject({ url: `/${repository.path}/packages/acme/lib`, headers: { cookie } })).body

    await rename(archive, `${archive}.away`)
    expect(await look()).toContain('<h3>Lib</h3>')
    await dropRows(t.db, 'version_readme')
    expect(await look()).not.toContain('<h3>Lib</h3>')
    await rename(`${archive}.away`, archive)
    expect(await look()).toContain('<h3>Lib</h3>')
    await rm(archive)
    expect(await look()).toContain('<h3>Lib</h3>')
  })

  it('pages through more versions than fit on one page, each once, development versions last', async () => {
    const { repository, look } = await aPackage()
    const more = Array.from({ length: 59 }, (_, i) => `0.${i + 1}`)
    await copyVersion(t.db, repository, { version: '1.0.0' }, more)
    const versionsIn = (body: string) =>
      [...body.matchAll(/\/acme\/lib\?version=([^"]+)"/g)].map(([, version]) => version)
    const first = await look('/-/versions')
    const [, query = ''] = /\/versions(\?after=[^"#]+)">Older versions</.exec(first.body) ?? []
    const second = await look(`/-/versions${query}`)
    expect(versionsIn(first.body)).toHaveLength(60)
    expect(versionsIn(second.body)).toEqual(['0.1', '2.0.0-foo'])
    expect(second.body).not.toContain('Older versions')
    // The package has more versions than the field offers, so the field also accepts other versions.
    expect((await look('?version=0.1')).body).toMatch(/<input id="version" name="version" value="0.1" list=/)
  })

  it('shows the replacement of an abandoned package, and the reason of a quarantine', async () => {
    const { repository, look } = await aPackage()
    await markAbandoned(t.db, repository, 'acme/new')
    await markQuarantined(t.db, repository, 'Stolen key', { version: '1.0.0' })
    expect((await look()).body).toContain('acme/new')
    expect((await look('?version=1.0.0')).body).toContain('Stolen key')
  })

  it('links the replacement of an abandoned package, also when it comes from an upstream', async () => {
    const { push, repository, look } = await aPackage()
    await push('1.0.0', { name: 'acme/new' })
    const replaceBy = (name: string) => markAbandoned(t.db, repository, name)
    await replaceBy('acme/new')
    expect((await look()).body).toContain(`<a href="/${repository.path}/packages/acme/new">acme/new</a>`)
    const upstreamId = await anUpstream(t.db, repository, { name: 'up', url: 'https://up.test' })
    await aMirroredPackage(t.db, repository, 'psr/log', { upstreamId, isSeen: true })
    await replaceBy('psr/log')
    expect((await look()).body).toContain(`<a href="/${repository.path}/packages/psr/log">psr/log</a>`)
  })

  it('warns of the advisories that affect the version, names the release that fixes them, and nothing else', async () => {
    const { repository, look } = await aPackage()
    expect((await look()).body).not.toContain('vulnerability')
    await anAdvisory(t.db, repository, { title: 'Counts twice', affectedVersions: '<1.1' })
    const { body } = await look('?version=1.0.0')
    expect(body).toContain('Version 1.0.0 has a known vulnerability.')
    expect(body).toMatch(/Fixed in <a href="[^"]*\?version=1\.1\.0">1\.1\.0<\/a>/)
    expect(body).toContain('<li>Counts twice')
    expect(body).toContain('<span class="badge caution">1 advisory</span>')
    for (const version of ['1.1.0', '2.0.0-foo']) {
      const other = (await look(`?version=${version}`)).body
      expect(other).not.toContain('1 advisory')
      expect(other).not.toContain('vulnerabilit')
    }
    const advisories = (await look('/-/advisories')).body
    expect(advisories).toMatch(/data-label="Fixed in"><a href="[^"]*">1\.1\.0<\/a><\/td>/)
  })

  it('marks the affected versions in the list, with the release that fixes them', async () => {
    const { repository, look } = await aPackage()
    await anAdvisory(t.db, repository, { title: 'Counts twice', affectedVersions: '<1.1' })
    const { body } = await look('/-/versions')
    expect(body.match(/1 advisory/g)).toHaveLength(1)
    expect(body.slice(body.indexOf('>1.0.0</a>'))).toMatch(
      /1 advisory<\/a>[\s\S]*Fixed in <a href="[^"]*">1\.1\.0</,
    )
  })

  it('names the number of advisories when there are too many to compare', async () => {
    const { repository, look } = await aPackage()
    const affectedVersions = Array.from({ length: 1000 }, () => '<1').join('|')
    for (let number = 0; number < 110; number += 1)
      await anAdvisory(t.db, repository, { title: `Advisory ${number}`, affectedVersions })
    const { body } = await look()
    expect(body).toMatch(/This package has <a href="[^"]*\/-\/advisories">110 security advisories<\/a>/)
    expect((await look('/-/versions')).statusCode).toBe(200)
  })

  it('is not there for somebody who may not see the repository', async () => {
    const { path, look } = await aPackage()
    expect((await t.app.inject(path)).statusCode).toBe(404)
    const version = await look('?version=9.9.9')
    expect([version.statusCode, version.body]).toEqual([
      404,
      expect.stringMatching(/acme\/lib has no such version\.[\s\S]*-\/versions">Show all versions</),
    ])
    expect(version.body).not.toContain('Only members see private pages')
  })
})
