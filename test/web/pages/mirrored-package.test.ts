import type { ServerResponse } from 'node:http'
import { describe, expect, it, vi } from 'vitest'
import { saveDownloads } from '../../../src/packages/tables/recorded-downloads.ts'
import { aMember, anAccount, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { aCaller, type Caller } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { holdDay } from '../../support/download-rows.ts'
import { upstreamsHere, useUpstream } from '../../support/upstream.ts'
import { aZip } from '../../support/zip.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream({ 'security-advisories': { metadata: true } })
const hanging = useUpstream({ 'security-advisories': { metadata: false, 'api-url': '/advisories' } })
const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString()

/** A repository whose upstream has a package, and an admin who looks at the pages of the package. */
async function aMirroredPackage(
  name: string,
  versions: object[],
  settings: object = {},
  document: object = {},
  from = upstream,
) {
  const caller = await aCaller(t)
  await caller.call('POST', '/upstreams', { url: from.url, name: 'public', ...settings })
  from.offer(name, versions as { version: string }[], { document })
  await caller.ask(`p2/${name}.json`)
  return { caller, ...(await aReader(caller, caller.account, name)) }
}

async function aReader({ repository }: Caller, account: { username: string }, name: string) {
  const cookie = await signIn(t.app, account as Parameters<typeof signIn>[1])
  const home = `/${repository.path}/packages/${name}`
  const look = (below = '') => t.app.inject({ url: home + below, headers: { cookie } })
  const csrf_token = csrfTokenIn(await t.app.inject({ url: '/settings/account', headers: { cookie } }))
  const send = (url: string, form: Record<string, string>) =>
    post(t.app, url, cookie, { csrf_token, ...form })
  return { home, look, send, upstreams: `/${repository.path}/-/upstreams` }
}

const archiveOf = (name: string, version: string) => `/archives/${name}/${version}.zip`
const zipOf = (name: string, files: Record<string, string> = {}) =>
  aZip({ 'lib-abc/composer.json': JSON.stringify({ name }), ...files })

describe('/<group>/<name>/packages/<vendor>/<package> of a mirrored package', () => {
  it('lists the versions with their dates, and why some are hidden', async () => {
    const name = 'seen/lib'
    const { look, caller } = await aMirroredPackage(
      name,
      [
        { version: '3.0.0', 'published-time': hoursAgo(1) },
        { version: '2.1.0', 'published-time': '2024-02-03T04:05:06+00:00' },
        { version: '2.0.0' },
        { version: '1.0.0' },
        { version: '0.9.0', dist: null },
      ],
      { minimum_age_hours: 72, deny: ['seen/*:1.*'] },
      { filter: { malware: [{ constraint: '2.0.0', reason: 'steals <tokens>' }] } },
    )
    await caller.ask(`dist/${name}/2.1.0/${referenceOf(name, '2.1.0')}.zip`)
    const { body } = await look('/-/versions')
    const row = (version: string) => {
      const at = body.indexOf(`version=${version}">${version}</a>`)
      return at < 0 ? null : body.slice(at, body.indexOf('</tr>', at))
    }
    expect(row('3.0.0')).toMatch(/held back[\s\S]*until \d+ \w+ \d{4}[\s\S]*not stored yet[\s\S]*Allow now/)
    expect(row('2.1.0')).toMatch(/3 Feb 2024[\s\S]*stored, /)
    expect(row('2.1.0')).not.toContain('badge')
    expect(row('2.0.0')).toMatch(/flagged as malware[\s\S]*steals &lt;tokens&gt;/)
    expect(row('1.0.0')).toContain('blocked by a rule')
    expect(body).toContain('0.9.0: the upstream offers it only as source, without an archive')
    expect((await look('/-/versions?from=1000')).body).toContain('/-/versions">')
  })

  it('draws its downloads by day and by version, as the page of an own package does', async () => {
    const name = 'drawn/lib'
    const { caller, look } = await aMirroredPackage(name, [{ version: '1.1.0' }, { version: '1.0.0' }])
    const day = await holdDay(t.db)
    expect((await look()).body).toContain('No downloads yet.')
    const of = { repositoryId: caller.repository.id, packageName: name }
    const downloader = { kind: 'anonymous', id: '0', accountId: null } as const
    await saveDownloads(t.db, [
      { ...of, version: '1.0.0', downloader, count: 3 },
      { ...of, version: '1.1.0', downloader, count: 2000 },
    ])
    const { body } = await look()
    expect(body).toContain('aria-label="Last 30 days, in UTC: 2,003, at most 2,003"')
    expect(body).toContain('aria-label="Newest 2 versions: 2,003, at most 2,000"')
    expect(body).toContain('<span>1.0.0</span><span>1.1.0</span>')
    expect(body).toContain(`Counted since ${day}.`)
  })

  it('shows the README and the files of an archive that is stored, and fetches it by a click', async () => {
    const name = 'read/me'
    const readme = '# Read me\n\n<script>alert(1)</script>\n\n[Guide](docs/guide.md) ![logo](logo.png)'
    upstream.put(
      archiveOf(name, '1.0.0'),
      zipOf(name, { 'lib-abc/README.md': readme, 'lib-abc/docs/guide.md': '<b>Guide</b>' }),
    )
    const entry = {
      version: '1.0.0',
      description: 'Reads <everything>',
      license: ['MIT'],
      require: { 'psr/log': '^3' },
    }
    const { caller, home, look, send } = await aMirroredPackage(name, [entry])
    const before = (await look()).body
    for (const shown of ['Reads &lt;everything&gt;', 'MIT', 'psr/log', '^3', 'from public', 'Fetch it now'])
      expect(before).toContain(shown)
    expect(before).not.toContain('Read me</h1>')
    expect((await look('/-/files')).body).toContain('has not stored the archive of 1.0.0 yet')
    expect(upstream.requests).not.toContain(`GET ${archiveOf(name, '1.0.0')}`)

    const stranger = await aReader(caller, await anAccount(t.db), name)
    expect((await stranger.send(`${home}/-/fetch`, { version: '1.0.0' })).statusCode).toBe(404)
    const fetched = await send(`${home}/-/fetch`, { version: '1.0.0', tab: 'files' })
    expect([fetched.statusCode, fetched.headers.location]).toEqual([303, `${home}/-/files?version=1.0.0`])
    expect((await look('/-/files?version=1.0.0')).body).toContain('README.md')
    const page = (await look()).body
    expect(page).toMatch(/<h\d[^>]*>.*Read me/)
    expect(page).not.toContain('<script>alert')
    expect(page).toContain(`${home}/-/files?version=1.0.0&amp;path=docs%2Fguide.md`)
    expect((await look('/-/files?version=1.0.0&path=docs%2Fguide.md')).body).toContain('&lt;b&gt;Guide')
    expect((await look('/-/dependencies')).body).toContain('psr/log')
    expect((await look('/-/activity')).body).toContain('Mirrored for the first time')
    expect((await look('?version=9.9.9')).statusCode).toBe(404)
  })

  it('shows nothing of an archive that is damaged, and of versions that are blocked', async () => {
    const name = 'odd/zip'
    // Its end record is right, and its directory is not.
    const damaged = zipOf(name)
    damaged[damaged.indexOf('PK\x01\x02', 0, 'latin1') + 3] = 9
    upstream.put(archiveOf(name, '1.0.0'), damaged)
    const { home, look, send, caller } = await aMirroredPackage(name, [{ version: '1.0.0' }])
    expect((await send(`${home}/-/fetch`, { version: '1.0.0' })).statusCode).toBe(303)
    expect((await look()).body).toContain('The archive of this version cannot be read here.')
    expect((await look('/-/files?version=1.0.0')).statusCode).toBe(404)
    await caller.call('PATCH', '/upstreams/public', { deny: ['odd/zip:1.0.0'] })
    const blocked = 'odd/zip 1.0.0 cannot be installed: an administrator has denied it'
    expect((await look('/-/files?version=1.0.0')).body).toContain(`${blocked}. Its files are not shown.`)
    const refused = await send(`${home}/-/fetch`, { version: '1.0.0' })
    expect([refused.statusCode, refused.body]).toEqual([410, expect.stringContaining(blocked)])
  })

  it('shows the files of exactly the versions whose archives can be downloaded', async () => {
    const name = 'same/rule'
    const { caller, look } = await aMirroredPackage(
      name,
      [
        { version: '5.0.0', 'published-time': hoursAgo(1) },
        ...['4.0.0', '3.0.0', '2.0.0'].map((version) => ({ version })),
        {
          version: '1.0.0',
          dist: { type: 'zip', url: `${upstream.url}/other.zip`, reference: 'b'.repeat(40) },
        },
      ],
      { minimum_age_hours: 72, allow: ['same/rule:<4'], deny: ['same/rule:3.*'] },
      { filter: { malware: [{ constraint: '2.0.0', reason: 'steals' }] } },
    )
    const download = async (version: string, reference = referenceOf(name, version)) =>
      (await caller.ask(`dist/${name}/${version}/${reference}.zip`)).statusCode
    const shown = async (version: string) => {
      const { body } = await look(`/-/files?version=${version}`)
      return /composer\.json<\/a>/.test(body) ? 'files' : /<p class="empty">([^<]*)/.exec(body)?.[1]
    }
    // Lock files may have versions that a rule hides only from the metadata.
    for (const hidden of ['5.0.0', '4.0.0'])
      expect([await download(hidden), await shown(hidden)]).toEqual([200, 'files'])
    const denied =
      'same/rule 3.0.0 cannot be installed: an administrator has denied it. Its files are not shown.'
    expect([await download('3.0.0'), await shown('3.0.0')]).toEqual([410, denied])
    const flagged =
      'same/rule 2.0.0 cannot be installed: the upstream flags it: steals. Its files are not shown.'
    expect([await download('2.0.0'), await shown('2.0.0')]).toEqual([410, flagged])
    await caller.call('PATCH', '/upstreams/public', { mode: 'off' })
    const absent = 'The archive of 1.0.0 is not stored here, and no upstream may offer it now.'
    expect([await download('1.0.0', 'b'.repeat(40)), await shown('1.0.0')]).toEqual([404, absent])
  })

  it('compares two versions whose archives are stored, and fetches one that is not', async () => {
    const name = 'com/pare'
    const manifestOf = (require: object) => JSON.stringify({ name, require })
    const changelog = '# Changes\n\n## 2.0.0\n\n[Guide](guide.md)\n\n## 1.0.0\n\nFirst'
    const files = {
      '1.0.0': { 'x/composer.json': manifestOf({}), 'x/src/A.php': '<?php // <one>' },
      '2.0.0': {
        'x/composer.json': manifestOf({ 'psr/log': '^3' }),
        'x/src/A.php': '<?php // <two>',
        'x/CHANGELOG.md': changelog,
      },
      // Nobody has checked the archives of an upstream.
      '3.0.0': { 'x/composer.json': '{"name":', 'x/src/A.php': '<?php // <two>' },
    }
    for (const [version, content] of Object.entries(files))
      upstream.put(archiveOf(name, version), aZip(content))
    const versions = ['3.0.0', '2.0.0', '1.1.0-beta1', '1.0.0'].map((version) => ({ version }))
    const { caller, home, look, send } = await aMirroredPackage(name, versions)
    upstream.offer(name, [{ version: 'dev-main' }, { version: 'dev-next' }], { isDev: true })
    await caller.ask(`p2/${name}~dev.json`)
    await caller.ask(`dist/${name}/2.0.0/${referenceOf(name, '2.0.0')}.zip`)
    const chosen = (body: string) =>
      [...body.matchAll(/<option value="([^"]+)" selected/g)].map(([, one]) => one)

    const before = (await look('/-/compare?to=2.0.0')).body
    expect(chosen(before), 'the previous release').toEqual(['1.0.0', '2.0.0'])
    expect(before).toContain('has not stored the archive of 1.0.0 yet')
    expect(before).not.toContain('archive of 2.0.0')
    const fetched = await send(`${home}/-/fetch`, {
      version: '1.0.0',
      tab: 'compare',
      from: '1.0.0',
      to: '2.0.0',
    })
    expect([fetched.statusCode, fetched.headers.location]).toEqual([
      303,
      `${home}/-/compare?from=1.0.0&to=2.0.0`,
    ])
    const body = (await look('/-/compare?from=1.0.0&to=2.0.0')).body.replaceAll('<wbr>', '')
    for (const shown of ['require.psr/log', '// &lt;one&gt;', '// &lt;two&gt;', 'Changelog'])
      expect(body).toContain(shown)
    expect(body).toContain(`${home}/-/files?version=2.0.0&amp;path=guide.md`)
    expect(body).toContain(`${home}/-/files?version=1.0.0&amp;path=src%2FA.php`)
    expect((await look('/-/compare?from=1.0.0&to=2.0.0&path=src/A.php')).statusCode).toBe(200)

    await caller.ask(`dist/${name}/3.0.0/${referenceOf(name, '3.0.0')}.zip`)
    expect((await look('/-/compare?to=3.0.0')).body).toContain(
      'The composer.json of one of the two versions cannot be read.',
    )
    expect(chosen((await look('/-/compare?to=dev-main')).body), 'the latest release').toEqual([
      '3.0.0',
      'dev-main',
    ])
    expect(chosen((await look('/-/compare')).body)).toEqual(['2.0.0', '3.0.0'])
    expect((await look('/-/compare?to=1.0.0')).body).toContain('no older version')
    expect((await look('/-/compare?from=1.0.0&to=9.9.9')).statusCode).toBe(404)
    await caller.call('PATCH', '/upstreams/public', { deny: ['com/pare:1.0.0'] })
    const denied = (await look('/-/compare?from=1.0.0&to=2.0.0')).body
    expect(denied).toContain('com/pare 1.0.0 cannot be installed')
    expect(denied).not.toContain('&lt;one&gt;')
  })

  it('lists the packages that require it, as those of the repository itself', async () => {
    const name = 'needed/lib'
    const { caller, look } = await aMirroredPackage(name, [{ version: '1.0.0' }])
    expect((await look('/-/dependents')).body).toContain('No package that you may see requires this one.')
    await caller.push('1.0.0', { name: 'own/app', manifest: { require: { [name]: '^1.0' } } })
    const { body } = await look('/-/dependents')
    expect(body).toMatch(/packages\/own\/app">own\/app<\/a>[\s\S]*\^1\.0/)
  })

  it('reads no directory of an archive that is larger than 32 MiB', async () => {
    const name = 'huge/directory'
    const directory = Buffer.alloc(33 * 1024 * 1024)
    const end = Buffer.alloc(22)
    end.write('PK\x05\x06', 'latin1')
    end.writeUInt32LE(directory.length, 12)
    end.writeUInt32LE(4, 16)
    upstream.put(
      archiveOf(name, '1.0.0'),
      Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), directory, end]),
    )
    const { home, look, send } = await aMirroredPackage(name, [{ version: '1.0.0' }])
    expect((await send(`${home}/-/fetch`, { version: '1.0.0' })).statusCode).toBe(303)
    expect((await look()).body).toContain('The archive of this version cannot be read here.')
    const files = await look('/-/files?version=1.0.0')
    expect([files.statusCode, files.body]).toEqual([404, expect.stringContaining('cannot be read')])
  })

  it('shows the advisories of the upstream', async () => {
    const advisory = {
      advisoryId: 'PKSA-1',
      affectedVersions: '<1.1',
      title: 'Reads <too> much',
      cve: 'CVE-2026-7',
      link: 'javascript:alert(1)',
      reportedAt: '2026-01-02 00:00:00',
      sources: [{ name: 'x', remoteId: 'y' }],
    }
    const name = 'ad/visory'
    const { look } = await aMirroredPackage(
      name,
      [{ version: '1.0.0' }],
      {},
      { 'security-advisories': [advisory] },
    )
    const { body } = await look('/-/advisories')
    for (const shown of ['Reads &lt;too&gt; much', 'PKSA-1', '&lt;1.1', 'CVE-2026-7', '2026-01-02'])
      expect(body).toContain(shown)
    expect(body).not.toContain('javascript:')
    expect((await look()).body).toContain('1 security advisory')
  })

  it('waits for an upstream that hangs without a turn of any other page, and asks it once for a failure', async () => {
    const name = 'hangs/lib'
    const slow = await aMirroredPackage(name, [{ version: '1.0.0' }], {}, {}, hanging)
    const ours = await aMirroredPackage('ready/lib', [{ version: '1.0.0' }])
    const held: ServerResponse[] = []
    hanging.fail('/advisories', (_, response) => held.push(response))
    // All of them have the same network, which has four turns, and two of heavy pages.
    const waiting = ['', '/-/advisories', '', '/-/advisories', ''].map(slow.look)
    await vi.waitUntil(() => held.length === waiting.length, 60_000)
    const others = Promise.all([
      ours.look(),
      ours.look('/-/files'),
      slow.look('/-/versions'),
      t.app.inject('/'),
    ])
    const first = await Promise.race([others, ...waiting])
    expect([first].flat().map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200])
    for (const response of held) response.writeHead(500).end()
    for (const page of await Promise.all(waiting)) expect(page.statusCode).toBe(200)
    expect((await slow.look('/-/advisories')).body).toContain('does not respond')
    expect(held).toHaveLength(waiting.length)
  })

  it('lets an admin approve a package that waits, and allow a version, and says why nothing is offered', async () => {
    const name = 'wants/lib'
    const { home, look, send, upstreams, caller } = await aMirroredPackage(
      name,
      [{ version: '1.0.0', 'published-time': hoursAgo(1) }],
      { mode: 'approved', minimum_age_hours: 72 },
    )
    const guest = await anAccount(t.db)
    await aMember(t.db, guest, caller.repository, 'guest')
    const asGuest = (await (await aReader(caller, guest, name)).look()).body
    expect(asGuest).toContain('This package waits for approval')
    expect(asGuest).not.toContain('/approve"')
    expect((await look()).body).toContain(`action="${upstreams}/approve"`)
    const approved = await send(`${upstreams}/approve`, { packages: name, page: name })
    expect([approved.statusCode, approved.headers.location]).toEqual([303, home])
    await caller.ask(`p2/${name}.json`)
    expect((await look()).body).toMatch(/1 version is held back until \d+ \w+ \d{4}/)
    const allowed = await send(`${upstreams}/allow`, { package: name, version: '1.0.0', page: name })
    expect([allowed.statusCode, allowed.headers.location]).toEqual([303, home])
    expect((await look()).body).toContain(`composer require ${name}`)
    await caller.call('PATCH', '/upstreams/public', { deny: [name] })
    expect((await look()).body).toContain('a rule of public blocks it')
    await caller.call('DELETE', '/upstreams/public')
    expect((await look()).body).toContain('its upstream public was removed')
  })

  it('is hidden with its repository, and 404 for a name that nobody asked for', async () => {
    const { caller, look, home } = await aMirroredPackage('hid/den', [{ version: '1.0.0' }])
    expect((await t.app.inject(home)).statusCode).toBe(404)
    const stranger = await aReader(caller, await anAccount(t.db), 'hid/den')
    const tabs = ['versions', 'dependencies', 'dependents', 'files', 'compare', 'advisories', 'activity']
    for (const tab of ['', ...tabs.map((one) => `/-/${one}`)]) {
      expect((await stranger.look(tab)).statusCode).toBe(404)
      expect((await look(tab)).statusCode).toBe(200)
    }
    expect((await (await aReader(caller, caller.account, 'no/body')).look()).statusCode).toBe(404)
  })
})

const referenceOf = (name: string, version: string) =>
  Buffer.from(`${name} ${version}`).toString('hex').padEnd(40, '0').slice(-40)
