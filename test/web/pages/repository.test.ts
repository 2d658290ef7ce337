import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { rankPackages } from '../../../src/packages/tables/downloads.ts'
import { listOfferedPackagesBy, type OrderedPackage } from '../../../src/packages/tables/listed-packages.ts'
import { aMember, anAccount, aRepository, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { addPastDownloads, setDownloadTotals } from '../../support/download-rows.ts'
import { aMirroredPackage } from '../../support/mirrored-rows.ts'
import { addFirstVersions, addPackages, addRanks } from '../../support/package-rows.ts'
import { aPublisher, expand } from '../../support/registry-actors.ts'
import { dropRows } from '../../support/rows.ts'
import { vacuum } from '../../support/statistics.ts'
import { addEmptyDocuments, delayChange } from '../../support/stored-documents.ts'
import { anUpstream } from '../../support/upstream-rows.ts'

describe('GET /<group>/<name>', () => {
  const t = useApp({ BASE_URL: 'http://svc.test:8080' })

  const look = (url: string, cookie = '') => t.app.inject({ url, headers: { cookie } })

  it('lists the packages with their newest release', async () => {
    const { repository, account, push } = await aPublisher(t)
    const manifest = { description: 'Counts <things> & more' }
    for (const version of ['1.9.0', '1.10.0', '2.0.0-foo']) {
      expect((await push(version, { name: 'acme/lib', manifest })).statusCode).toBe(201)
    }
    const { body, statusCode } = await look(`/${repository.path}`, await signIn(t.app, account))
    expect(statusCode).toBe(200)
    expect(body).toContain(`href="/${repository.path}/packages/acme/lib"`)
    expect(body).toContain('Counts &lt;things&gt; &amp; more')
    expect(body).toContain('<code>1.10.0</code>')
  })

  it('lists packages of upstreams separately, and names that wait for approval', async () => {
    const { repository, account } = await aPublisher(t)
    const upstreamId = await anUpstream(t.db, repository, { minimumAgeHours: 72 })
    const seen = { upstreamId, isSeen: true, description: 'Logs & more' }
    await aMirroredPackage(t.db, repository, 'psr/log', seen)
    await aMirroredPackage(t.db, repository, 'wanted/lib', { requesterId: account.id, isRequested: true })
    const { body } = await look(`/${repository.path}`, await signIn(t.app, account))
    expect(body).toContain('From upstreams')
    expect(body).toMatch(/psr\/log.*Logs &amp; more.*public · first seen.*at least 72 hours old/s)
    expect(body).toMatch(/wanted\/lib.*waits for approval/s)
    expect(body).toContain(`requested by ${account.username}`)
  })

  it('shows the steps to install and to publish, folded beside packages (CONTRACT 4.4, SPEC 4.5, 4.6)', async () => {
    const { repository, account, push } = await aPublisher(t)
    const cookie = await signIn(t.app, account)
    const empty = (await look(`/${repository.path}`, cookie)).body
    const name = repository.path.replace('/', '-')
    const url = `http://svc.test:8080/${repository.path}/-/packages/`
    for (const step of [
      'composer config -g http-basic.svc.test:8080 svc "$SVC_TOKEN"',
      `composer config repositories.${name} composer ${url}\ncomposer config secure-http false`,
      'composer config repositories.packagist.org false',
      'composer require vendor/package',
      '"exclude": ["auth.json", "composer.lock", "vendor"]',
      'composer archive --format=zip --file=package',
      `curl --netrc --fail-with-body -T package.zip ${url}upload/vendor/package/1.0.0`,
    ])
      expect(empty.replaceAll('&#34;', '"').replaceAll('&quot;', '"')).toContain(step)
    expect(empty).toContain(`<a href="/${repository.path}/-/setup">Set up</a>`)
    expect(empty).toMatch(/<details open>\s*<summary>Use this registry/)
    await push('1.0.0', { name: 'acme/lib' })
    const filled = (await look(`/${repository.path}`, cookie)).body
    expect(filled).toMatch(/<details>\s*<summary>Use this registry/)
    expect(filled).toContain('composer require acme/lib')
    expect((await look(`/${repository.path}/-/setup`, cookie)).body).toContain('id="publish"')
  })

  it('leaves out how to publish for somebody who may not', async () => {
    const { repository, account } = await aPublisher(t, { role: 'guest' })
    const cookie = await signIn(t.app, account)
    expect((await look(`/${repository.path}`, cookie)).body).not.toMatch(/publishing|#publish|upload/)
    expect((await look(`/${repository.path}/-/setup`, cookie)).body).not.toContain('composer archive')
  })

  it('shows a public repository to anybody', async () => {
    const repository = await aRepository(t.db, { visibility: 'public' })
    const response = await look(`/${repository.path}`)
    expect(response.statusCode).toBe(200)
    expect(response.body).toContain('composer config repositories.')
    expect(response.body).not.toContain('http-basic')
    expect(response.body).toContain(`href="/login?page=%2F${repository.path.replace('/', '%2F')}"`)
  })

  it('responds in the same way for a private repository of others and for a missing one', async () => {
    const account = await anAccount(t.db)
    const { path } = await aRepository(t.db, { name: 'theirs' })
    for (const cookie of ['', await signIn(t.app, account)]) {
      const hidden = await look(`/${path}`, cookie)
      const none = await look('/no-such/theirs', cookie)
      expect(hidden.statusCode).toBe(404)
      const withoutUrl = (body: string) => body.replaceAll(/page=[^"]+|<code class="copy">[^<]+/g, '')
      expect(withoutUrl(hidden.body)).toBe(withoutUrl(none.body))
    }
  })

  it('finds packages by name and description, and pages through them by name', async () => {
    const { repository, account, push } = await aPublisher(t)
    await push('1.0.0', { name: 'acme/one', manifest: { description: 'Apples' } })
    const pears = Array.from({ length: 60 }, (_, i) => {
      return { name: `acme/p${String(i + 1).padStart(3, '0')}`, description: 'Pears' }
    })
    await addPackages(t.db, repository, pears)
    await addFirstVersions(t.db, repository)
    const cookie = await signIn(t.app, account)
    const names = (body: string) => [...body.matchAll(/packages\/(acme\/\w+)"/g)].map(([, name]) => name)
    const apples = await look(`/${repository.path}?q=APPLES`, cookie)
    expect(names(apples.body)).toEqual(['acme/one'])
    const first = await look(`/${repository.path}?q=acme%2F`, cookie)
    expect(names(first.body)).toHaveLength(50)
    const next = /href="([^"]+after=[^"]+)"/.exec(first.body)?.[1]?.replaceAll('&amp;', '&') as string
    expect(names((await look(next, cookie)).body)).toHaveLength(11)
  })

  it('shows downloads and versions of each package, and sorts by name, change or downloads', async () => {
    const { repository, account, push } = await aPublisher(t)
    for (const name of ['acme/a', 'acme/b', 'acme/c']) await push('1.0.0', { name })
    await push('1.1.0', { name: 'acme/a' })
    for (const [name, count] of [
      ['acme/b', 1234],
      ['acme/c', 1],
    ] as const)
      await addPastDownloads(t.db, { repositoryId: repository.id, name, version: '1.0.0' }, [[0, count]])
    // Last-Modified has whole seconds, so each change must be in its own second.
    for (const [name, minutes] of Object.entries({ 'acme/a': 3, 'acme/c': 2, 'acme/b': 1 }))
      await delayChange(t.db, repository, name, minutes)
    const cookie = await signIn(t.app, account)
    const names = (body: string) =>
      [...body.matchAll(/class="title">(?:<img [^>]*>)?<a href="[^"]+packages\/(acme\/\w)"/g)].map(
        ([, name]) => name,
      )
    await rankPackages(t.db, 100)
    const sorted = async (query: string) => names((await look(`/${repository.path}${query}`, cookie)).body)
    const { body } = await look(`/${repository.path}`, cookie)
    expect(names(body)).toEqual(['acme/a', 'acme/b', 'acme/c'])
    expect(body).toContain('1,234 downloads · 1 version<')
    expect(body).toContain('0 downloads · 2 versions<')
    expect(await sorted('?sort=downloads')).toEqual(['acme/b', 'acme/c', 'acme/a'])
    expect(await sorted('?sort=updated')).toEqual(['acme/a', 'acme/c', 'acme/b'])
    expect(await sorted('?sort=updated&q=ME%2FB')).toEqual(['acme/b'])
    expect(await sorted('?sort=downloads&q=acme%2Fc')).toEqual(['acme/c'])
    expect(await sorted('?sort=nonsense')).toEqual(['acme/a', 'acme/b', 'acme/c'])
  })

  it.each(['updated', 'downloads'])('pages through the packages by %s, each once', async (sort) => {
    const { repository, account, push } = await aPublisher(t)
    await push('1.0.0', { name: 'acme/p000' })
    const more = Array.from({ length: 119 }, (_, i) => `acme/p${String(i + 1).padStart(3, '0')}`)
    await addPackages(t.db, repository, more)
    await addFirstVersions(t.db, repository)
    await addEmptyDocuments(t.db, repository)
    await addRanks(t.db)
    const cookie = await signIn(t.app, account)
    const seen: (string | undefined)[] = []
    let url: string | undefined = `/${repository.path}?sort=${sort}`
    while (url !== undefined) {
      const { body } = await look(url, cookie)
      seen.push(...[...body.matchAll(/packages\/(acme\/p\d+)"/g)].map(([, name]) => name))
      url = /<a href="([^"]+)">More packages/.exec(body)?.[1]?.replaceAll('&amp;', '&')
    }
    expect(seen).toHaveLength(120)
    expect(new Set(seen).size).toBe(120)
  })

  it('orders by downloads through an index, however many packages there are', async () => {
    const { repository, push } = await aPublisher(t)
    await push('1.0.0', { name: 'many/first' })
    const more = Array.from({ length: 3000 }, (_, i) => `many/p${i + 1}`)
    await addPackages(t.db, repository, more)
    await addFirstVersions(t.db, repository)
    const totals = Object.fromEntries(more.map((name, i) => [name, i % 7]))
    await setDownloadTotals(t.db, repository, { ...totals, 'many/first': 1000 })
    await addRanks(t.db)
    let ranked = 0
    for (let part = -1; part !== 0; ranked += part) part = await rankPackages(t.db, 1_000)
    expect(ranked).toBeGreaterThan(2000)
    await vacuum(t.db)
    const seen: OrderedPackage[] = []
    for (let part: OrderedPackage[] | null = null; part === null || part.length === 600; ) {
      const after: string | null = seen.at(-1)?.place ?? null
      part = await listOfferedPackagesBy(t.db, 'downloads', repository.id, '', { after, limit: 600 })
      seen.push(...part)
    }
    expect(seen[0]).toMatchObject({ name: 'many/first', downloads: 1000 })
    expect(new Set(seen.map(({ name }) => name)).size).toBe(3001)
    expect(seen.every(({ downloads }, i) => downloads <= (seen[i - 1]?.downloads ?? Infinity))).toBe(true)
    const { rows } = await t.db.query<string[]>({
      text: `explain select package_id from package_rank
              where repository_id = ${repository.id} and (downloads, package_id) < (5, 100)
              order by downloads desc, package_id desc limit 51`,
      rowMode: 'array',
    })
    expect(rows.join('\n')).toMatch(/Scan Backward using packages_by_downloads/)
  })

  it('shows the first page for an invalid place', async () => {
    const { repository, account, push } = await aPublisher(t)
    await push('1.0.0', { name: 'acme/lib' })
    const cookie = await signIn(t.app, account)
    for (const place of ['x', '1', '9-', `${'9'.repeat(40)}-1`, '1-1-1', '-1-2']) {
      const { body, statusCode } = await look(`/${repository.path}?sort=downloads&after=${place}`, cookie)
      expect([statusCode, body.includes('acme/lib')], place).toEqual([200, true])
    }
    const end = await look(
      `/${repository.path}?sort=updated&after=${'9'.repeat(15)}-${'9'.repeat(18)}`,
      cookie,
    )
    expect(end.statusCode).toBe(200)
  })

  it.each(['/a%00b/c', '/acme/php?q=%00', '/acme/php?q=a&q=b', '/ACME/PHP', '/acme/%20'])(
    'responds to %s with a page',
    async (url) => {
      const response = await look(url)
      expect([400, 404]).toContain(response.statusCode)
      expect(response.headers['content-type']).toBe('text/html; charset=utf-8')
    },
  )

  it('links to a token form that is filled in for this repository', async () => {
    const { repository, account } = await aPublisher(t)
    const cookie = await signIn(t.app, account)
    const { body } = await look(`/${repository.path}/-/setup`, cookie)
    const link = /href="(\/settings\/tokens\/new\?preset=pull[^"#]+)/
      .exec(body)?.[1]
      ?.replaceAll('&amp;', '&')
    const form = await look(link as string, cookie)
    expect(form.body).toContain(`value="${repository.path}" checked`)
  })

  it('hides a private repository from a removed member', async () => {
    const account = await anAccount(t.db)
    const repository = await aRepository(t.db)
    await aMember(t.db, account, repository, 'guest')
    const cookie = await signIn(t.app, account)
    expect((await look(`/${repository.path}`, cookie)).statusCode).toBe(200)
    await dropRows(t.db, 'repository_member', { repositoryId: repository.id })
    expect((await look(`/${repository.path}`, cookie)).statusCode).toBe(404)
  })
})

describe('GET /<group>/<name>/-/setup', () => {
  const t = useApp({ BASE_URL: 'http://svc.test:8080' })

  const look = async (path: string, cookie = '') =>
    (await t.app.inject({ url: path, headers: { cookie } })).body
      .replaceAll('&quot;', '"')
      .replaceAll('&#39;', "'")

  it('fills the values of a private repository in, for each tool', async () => {
    const { repository, account, push } = await aPublisher(t)
    await push('1.0.0', { name: 'acme/real' })
    const cookie = await signIn(t.app, account)
    const url = `http://svc.test:8080/${repository.path}/-/packages/`
    const page = (tool: string) => look(`/${repository.path}/-/setup?tool=${tool}`, cookie)
    const composer = await page('composer')
    expect(composer).toContain('composer require acme/real')
    expect(composer).toContain('composer config -g http-basic.svc.test:8080 svc "$SVC_TOKEN"')
    expect(composer).toContain(`composer ${url}\n`)
    expect(composer).toContain('composer config repositories.packagist.org false')
    expect(composer).toContain(`password %s\\n' svc.test "$SVC_TOKEN"`)
    expect(composer).toContain('composer archive --format=zip --file=package')
    expect(composer).toContain(`-T package.zip ${url}upload/vendor/package/1.0.0`)
    const auth = '{"http-basic": {"svc.test:8080": {"username": "svc", "password": "'
    const github = await page('github')
    expect(github).toContain(`  env:\n    COMPOSER_AUTH: '${auth}\${{ secrets.SVC_TOKEN }}"}}}'`)
    expect(github).toContain(`"${url}upload/acme/real/\${GITHUB_REF_NAME#v}"`)
    expect(github).toContain("tags: ['v*']")
    expect(github).toContain('<a href="/docs/publishing#trusted-publishers">trusted publisher</a>')
    const gitlab = await page('gitlab')
    expect(gitlab).toContain(`  variables:\n    COMPOSER_AUTH: '${auth}$SVC_TOKEN"}}}'\n  script:`)
    expect(gitlab).toContain(`"${url}upload/acme/real/\${CI_COMMIT_TAG#v}"`)
    expect(await page('curl')).toContain(`curl --fail-with-body -u "svc:$SVC_TOKEN" ${url}packages.json`)
    expect(await page('netrc')).toContain(`password %s\\n' svc.test "$SVC_TOKEN"`)
    expect(await page('<b>')).toContain('composer require acme/real')
  })

  it('shows only commands that a shell accepts, and that set the token which they use', async () => {
    const { repository, account } = await aPublisher(t)
    const cookie = await signIn(t.app, account)
    for (const tool of ['composer', 'curl', 'netrc']) {
      const page = await look(`/${repository.path}/-/setup?tool=${tool}`, cookie)
      const blocks = Array.from(
        page.matchAll(/<pre tabindex="0"><code>(.*?)<\/code><\/pre>/gs),
        ([, text = '']) => text.replaceAll('&lt;', '<').replaceAll('&gt;', '>'),
      )
      // The others are the URL of the registry, and a part of composer.json.
      const commands = blocks.filter((block) => !/^(?:http|")/.test(block)).join('\n')
      expect(commands).toContain('curl ')
      await promisify(execFile)('sh', ['-n', '-c', commands])
      const [used, set] = [/"?\$(\w*TOKEN)"/g, /^(\w*TOKEN)='/gm].map(
        (pattern) => new Set(Array.from(commands.matchAll(pattern), ([, name]) => name)),
      )
      expect(set).toEqual(used)
    }
  })

  it('waits for the first installation and upload of the person, and tells when they have arrived', async () => {
    const other = await aPublisher(t)
    await other.push('1.0.0')
    const own = await aPublisher(t, { repository: other.repository })
    const cookie = await signIn(t.app, own.account)
    const progress = async (id: string) => {
      const body = await look(`/${own.repository.path}/-/setup`, cookie)
      const [, waits, html = ''] =
        new RegExp(`id="${id}" role="status"(?: data-waits="(\\w+)")?>(.*?)</div>`, 's').exec(body) ?? []
      const text = html
        .replaceAll(/<.*?>/g, '')
        .trim()
        .split(/\s*\n\s*/)
      return { waits, text }
    }
    const waiting = 'Waiting for your first composer require … Check now'
    expect(await progress('installed')).toEqual({ waits: 'new', text: [waiting] })
    const published = await progress('published')
    expect(published).toEqual({ waits: 'new', text: ['Waiting for your first upload … Check now'] })

    const [version] = expand((await own.ask('p2/acme/lib.json')).body)
    await expect.poll(() => progress('installed')).toMatchObject({ waits: 'used' })
    const reached = expect.stringMatching(/^Your token .* reached svc on .* UTC\.$/)
    expect((await progress('installed')).text).toEqual([reached, waiting])

    const [, archive = ''] = /"url":"[^"]*\/(dist\/[^"]*)"/.exec(JSON.stringify(version)) ?? []
    expect((await own.ask(archive)).statusCode).toBe(200)
    await expect.poll(() => progress('installed')).toMatchObject({ waits: undefined })
    expect((await progress('installed')).text).toEqual(['Installed acme/lib 1.0.0 today.'])

    await own.push('1.1.0')
    const done = await progress('published')
    expect(done.waits).toBeUndefined()
    expect(done.text).toEqual([expect.stringMatching(/^Published acme\/lib 1\.1\.0 on .* UTC\.$/)])
  })

  it('needs no credentials for a public repository, and does not show guests how to publish', async () => {
    const { repository, push } = await aPublisher(t, { visibility: 'public' })
    await push('1.0.0', { name: 'acme/open' })
    for (const tool of ['composer', 'github', 'gitlab', 'curl']) {
      const body = await look(`/${repository.path}/-/setup?tool=${tool}`)
      expect(body).toContain('This repository is public')
      expect(body).not.toContain('SVC_TOKEN')
      expect(body).not.toContain('upload/')
    }
  })

  it('is hidden like the repository', async () => {
    const { repository } = await aPublisher(t)
    const { statusCode } = await t.app.inject(`/${repository.path}/-/setup`)
    expect(statusCode).toBe(404)
  })
})
