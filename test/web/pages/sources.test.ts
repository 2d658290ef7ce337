import { describe, expect, it } from 'vitest'
import { setProofAge } from '../../support/account-rows.ts'
import { aMember, anAccount, aRepository, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { packageFiles, sourcesHere, useGitServer } from '../../support/git-server.ts'
import { aSource } from '../../support/source-actors.ts'
import { setReleaseRule } from '../../support/stage-rows.ts'

const t = useApp(sourcesHere)
const server = useGitServer()

async function aVisitor({ role = 'admin' as 'admin' | 'developer' } = {}) {
  const repository = await aRepository(t.db)
  const account = await anAccount(t.db)
  await aMember(t.db, account, repository, role)
  const cookie = await signIn(t.app, account)
  const csrf_token = csrfTokenIn(await t.app.inject({ url: '/settings/account', headers: { cookie } }))
  const url = `/${repository.path}/-/sources`
  const get = (path: string) => t.app.inject({ url: path, headers: { cookie } })
  const open = (below = '') => get(url + below)
  const send = (below: string, form: Record<string, string> = {}) =>
    post(t.app, url + below, cookie, { csrf_token, ...form })
  return { account, repository, url, get, open, send }
}

const publicSource = { url: 'https://1.1.1.1/acme/lib.git', tags: '*', branches: '*', every: '15' }
const secretIn = (body: string) => /<code class="copy" id="secret">(whsec_[^<]+)</.exec(body)?.[1] ?? ''

describe('/<group>/<name>/-/sources', () => {
  it('adds a Git source, and shows the secret of its hook once, for each Git server', async () => {
    const { url, open, send } = await aVisitor()
    const form = {
      ...publicSource,
      url: 'https://1.1.1.1/acme/lib.git',
      path: 'packages/lib',
      secret: 'a-token',
    }
    const added = await send('/new', form)
    expect(added.statusCode).toBe(200)
    const secret = secretIn(added.body)
    expect(added.body.split(secret)).toHaveLength(6)
    for (const [forge, page] of [
      ['GitHub', 'settings/hooks/new'],
      ['GitLab', '-/hooks'],
      ['Forgejo or Gitea', 'settings/hooks'],
      ['Bitbucket', 'admin/webhooks'],
    ]) {
      expect(added.body).toContain(`<summary>${forge}</summary>`)
      expect(added.body).toContain(`<a href="https://1.1.1.1/acme/lib/${page}"`)
    }
    const [, id = ''] = new RegExp(`href="${url}/(\\d+)"`).exec((await open()).body) ?? []
    const { body } = await open(`/${id}`)
    expect(body).toContain(`http://svc.test/hooks/${id}`)
    expect(body).toContain('packages/lib')
    expect(body).not.toMatch(/whsec_|a-token/)
  })

  it.each<[string, Record<string, string>, string, string]>([
    ['another scheme', { url: 'ftp://git.example.com/lib' }, 'url', 'must begin with https://'],
    [
      'credentials in the URL',
      { url: 'https://u:p@git.example.com/lib' },
      'url',
      'must not contain credentials',
    ],
    ['a private address', { url: 'https://127.0.0.1/lib' }, 'url', 'no public IP'],
    ['SSH without a key', { url: 'ssh://git@git.example.com/lib' }, 'ssh_key', 'needs a private key'],
    [
      'a key that is none',
      { url: 'ssh://git@git.example.com/lib', ssh_key: 'mine' },
      'ssh_key',
      'a passphrase',
    ],
    ['a folder that is none', { path: '../lib' }, 'path', 'must be a folder'],
    ['an interval of no minutes', { every: '0' }, 'every', '1 to 10080 minutes'],
    ['a token in two lines', { secret: 'one\ntwo' }, 'secret', 'in one line'],
    ['a fingerprint for https', { host_key: 'SHA256:x' }, 'host_key', 'an SSH server has a key'],
    ['a long pattern', { branches: 'x'.repeat(201) }, 'branches', 'at most 200 characters'],
  ])(
    'refuses %s at its field, and keeps what was entered without secrets',
    async (_, change, field, message) => {
      const { open, send } = await aVisitor()
      const refused = await send('/new', { ...publicSource, tags: 'v7.*', secret: '', ...change })
      expect(refused.statusCode).toBe(400)
      const [, words = ''] =
        /<p class="problem" role="alert" id="problem">([^<]*)<\/p>/.exec(refused.body) ?? []
      expect(words).toContain(message)
      expect(refused.body).toMatch(
        new RegExp(`id="problem">[^<]*</p>\\s*<(?:input|textarea) id="${field}"[^>]* aria-invalid="true"`),
      )
      expect(refused.body).toContain('value="v7.*"')
      const given = [change['secret'], change['ssh_key']].find(Boolean)
      if (given !== undefined) expect(refused.body).not.toContain(`>${given}`)
      expect((await open()).body).toContain('There are no Git sources yet')
    },
  )

  it('asks for a recent confirmation before the form, which is not kept with a secret', async () => {
    const { account, open, send } = await aVisitor()
    await setProofAge(t.db, account, '1 hour')
    expect((await open('/new')).headers.location).toContain('/settings/confirm-access')
    const asked = await send('/new', { ...publicSource, secret: 'a-token' })
    expect(asked.headers.location).toContain('/settings/confirm-access')
    const { rows } = await t.db.query("select from held_form where fields like '%a-token%'")
    expect(rows).toEqual([])
    expect((await open()).body).toContain('There are no Git sources yet')
  })

  it('shows each tag and branch with its version, or the reason why there is none', async () => {
    const { repository, open, send } = await aVisitor()
    const git = server.repository('shown')
    git.commit(packageFiles('acme/shown'), { tag: '1.0.0' })
    git.commit({ 'composer.json': '{' }, { tag: '2.0.0' })
    git.commit(packageFiles('acme/shown'))
    for (let i = 10; i < 62; i += 1) git.git('tag', `nightly-${i}`)
    const source = await aSource(t, { url: git.url }, { place: repository })
    expect((await open(`/${source.id}`)).body).toContain('They are listed after the first look.')
    await source.read()
    const { body } = await open(`/${source.id}`)
    expect(body).toContain(
      `<a href="/${repository.path}/packages/acme/shown?version=dev-main">acme/shown dev-main</a>`,
    )
    expect(body).toContain(
      `<a href="/${repository.path}/packages/acme/shown?version=1.0.0">acme/shown 1.0.0</a>`,
    )
    expect(body).toMatch(/composer\.json[^<]*JSON/)
    expect(body).not.toContain('nightly-61')
    const [, more = ''] = /<a href="([^"]+)">More tags and branches</.exec(body) ?? []
    const rest = await open(more.replaceAll('&amp;', '&').split('/sources')[1])
    expect(rest.body).toContain('nightly-61')
    const refused = (await open(`/${source.id}?state=refused`)).body
    expect(refused).toContain('2.0.0')
    expect(refused).not.toContain('nightly')
    expect((await open()).body).toContain('2 published, 52 skipped, 1 refused')
    git.commit({}, { tag: '1.1.0' })
    expect((await send(`/${source.id}/sync`)).headers.location).toMatch(new RegExp(`/sources/${source.id}$`))
    await source.read()
    expect((await open(`/${source.id}`)).body).toContain('acme/shown 1.1.0')
  })

  it('links a staged version to its review', async () => {
    const { repository, open } = await aVisitor()
    await setReleaseRule(t, repository)
    const git = server.repository('reviewed')
    git.commit(packageFiles('acme/reviewed'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, branches: '' }, { place: repository })
    await source.read()
    const { body } = await open(`/${source.id}`)
    expect(body).toMatch(new RegExp(`<a href="/${repository.path}/-/stages/\\d+">waiting for review</a>`))
    expect(body).not.toContain('/packages/acme/reviewed?')
  })

  it('shows since when and why a source cannot be read, there and on the home page of admins', async () => {
    const { repository, get, open } = await aVisitor()
    const source = await aSource(t, { url: `${server.url}/nowhere.git` }, { place: repository })
    const words = `1 Git source of ${repository.path} cannot be read`
    expect((await get('/')).body).not.toContain(words)
    await source.read()
    const failure = 'the server has no such Git repository, or needs credentials'
    for (const page of [await open(), await open(`/${source.id}`)])
      expect(page.body).toMatch(new RegExp(`first failed <time [^>]+>on [^<]+</time>: ${failure}`))
    const { body } = await open(`/${source.id}`)
    expect(body).toContain('svc could not read any yet.')
    expect(body).toContain(`<a href="/${repository.path}/-/sources/new">add it again</a>`)
    expect((await get('/')).body).toContain(`<a href="/${repository.path}/-/sources">${words}</a>`)
    const developer = await anAccount(t.db)
    await aMember(t.db, developer, repository, 'developer')
    const headers = { cookie: await signIn(t.app, developer) }
    expect((await t.app.inject({ url: '/', headers })).body).not.toContain(words)
  })

  it('makes another hook secret, or takes that of the Git server', async () => {
    const { url, open, send } = await aVisitor()
    const first = secretIn((await send('/new', publicSource)).body)
    const [, id = ''] = new RegExp(`href="${url}/(\\d+)"`).exec((await open()).body) ?? []
    const made = await send(`/${id}/hook-secret`)
    expect(secretIn(made.body)).toMatch(/^whsec_/)
    expect(secretIn(made.body)).not.toBe(first)
    expect((await send(`/${id}/hook-secret`, { hook_secret: 'short' })).body).toContain(
      '16 to 200 ASCII characters',
    )
    const taken = await send(`/${id}/hook-secret`, { hook_secret: `whsec_${'A'.repeat(43)}=` })
    expect([taken.statusCode, taken.headers.location]).toEqual([303, `${url}/${id}`])
    const headers = { 'x-gitlab-token': `whsec_${'A'.repeat(43)}=` }
    expect((await t.app.inject({ method: 'POST', url: `/hooks/${id}`, headers })).statusCode).toBe(202)
  })

  it('removes one after a question', async () => {
    const { url, open, send } = await aVisitor()
    await send('/new', publicSource)
    const [, id = ''] = new RegExp(`href="${url}/(\\d+)"`).exec((await open()).body) ?? []
    expect((await open(`/${id}/remove`)).body).toContain('Remove the Git source 1.1.1.1/acme/lib?')
    expect((await send(`/${id}/remove`)).headers.location).toBe(url)
    expect((await open()).body).toContain('There are no Git sources yet')
    for (const below of ['', '/hook-secret', '/remove'])
      expect((await open(`/${id}${below}`)).statusCode).toBe(404)
    for (const below of ['/sync', '/confirm', '/hook-secret', '/remove'])
      expect((await send(`/${id}${below}`)).statusCode).toBe(404)
    expect((await open('/x')).statusCode).toBe(404)
    expect((await (await aVisitor()).open(`/${id}`)).statusCode).toBe(404)
  })

  it('is for admins of the repository', async () => {
    const { repository, open, send } = await aVisitor({ role: 'developer' })
    const { id } = await aSource(t, { url: `${server.url}/lib.git` }, { place: repository })
    for (const below of ['', '/new', `/${id}`, `/${id}/hook-secret`, `/${id}/remove`])
      expect([below, (await open(below)).statusCode]).toEqual([below, 403])
    for (const below of ['/new', `/${id}/sync`, `/${id}/confirm`, `/${id}/hook-secret`, `/${id}/remove`])
      expect([below, (await send(below, publicSource)).statusCode]).toEqual([below, 403])
  })
})
