import { describe, expect, it } from 'vitest'
import { setProofAge } from '../../support/account-rows.ts'
import { aMember, anAccount, aRepository, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { issuersHere, useCiIssuer } from '../../support/ci-issuer.ts'
import { aTrustedPublisher, exchangeAt, jobClaims } from '../../support/publisher-actors.ts'

const t = useApp(issuersHere)
const ci = useCiIssuer()

async function aVisitor({ role = 'admin' as 'admin' | 'developer' } = {}) {
  const repository = await aRepository(t.db)
  const account = await anAccount(t.db)
  await aMember(t.db, account, repository, role)
  const cookie = await signIn(t.app, account)
  const csrf_token = csrfTokenIn(await t.app.inject({ url: '/settings/account', headers: { cookie } }))
  const url = `/${repository.path}/-/trusted-publishers`
  const open = (below = '') => t.app.inject({ url: url + below, headers: { cookie } })
  const send = (below: string, form: Record<string, string>) =>
    post(t.app, url + below, cookie, { csrf_token, ...form })
  return { account, repository, url, open, send }
}

const gitHub = { provider: 'github', project: 'acme/lib', workflow: 'release.yml', right: 'publish' }

describe('/<group>/<name>/-/trusted-publishers', () => {
  it('adds a trusted publisher, and fills the workflow of its CI with its values', async () => {
    const { repository, url, open, send } = await aVisitor()
    const form = {
      ...gitHub,
      environment: 'production',
      packages: 'acme/lib acme/lib-*',
      claims: 'ref=refs/tags/*',
    }
    const added = await send('/new', form)
    expect([added.statusCode, added.headers.location]).toEqual([303, `${url}?ci=github`])
    const { body } = await open('?ci=github')
    expect(body).toContain('acme/lib')
    expect(body).toContain('ref=refs/tags/*')
    expect(body).toContain('environment: production')
    expect(body).toContain('.github/workflows/release.yml')
    expect(body).toContain(`http://svc.test/${repository.path}/-/packages/upload/acme/lib/`)
    expect(body).not.toContain('Replace <code>vendor/package</code>')
  })

  it('shows the workflow of each CI in a tab', async () => {
    const { open } = await aVisitor()
    expect((await open()).body).toContain('id-token: write')
    expect((await open('?ci=gitlab')).body).toContain('id_tokens:')
    expect((await open('?ci=forgejo')).body).toContain('enable-openid-connect: true')
    expect((await open('?ci=jenkins')).body).toContain('id-token: write')
  })

  it.each<[string, Record<string, string>, string]>([
    ['without a project', { project: '' }, 'owner/name'],
    ['without a workflow', { workflow: '' }, 'release.yml'],
    ['with a condition that is none', { claims: 'refs/tags/*' }, 'name=value'],
    ['with a pattern that is none', { packages: 'acme' }, 'patterns'],
    ['with an issuer on http', { issuer: 'http://ci.example.com' }, 'https'],
  ])('refuses one %s, and keeps what was entered', async (_, change, message) => {
    const { open, send } = await aVisitor()
    const refused = await send('/new', { ...gitHub, environment: 'entered before', ...change })
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toContain(message)
    expect(refused.body).toContain('value="entered before"')
    expect((await open()).body).toContain('There are no trusted publishers yet')
  })

  it('asks for a recent confirmation, because jobs then need no token of a person', async () => {
    const { account, open, send } = await aVisitor()
    await setProofAge(t.db, account, '1 hour')
    const asked = await send('/new', gitHub)
    expect(asked.headers.location).toContain('/settings/confirm-access')
    expect((await open()).body).toContain('There are no trusted publishers yet')
  })

  it('shows what differed in the last exchange', async () => {
    const { repository, open } = await aVisitor()
    await aTrustedPublisher(t, ci, repository)
    const resource = `http://svc.test/${repository.path}/-/packages/`
    const token = await ci.sign({ ...jobClaims, event_name: 'pull_request' })
    expect((await exchangeAt(t, { subject_token: token, resource })).statusCode).toBe(400)
    const { body } = await open()
    expect(body).toContain('refused')
    expect(body).toMatch(/<code>event_name<\/code> is\s+<code>pull_request<\/code>/)
    await exchangeAt(t, { subject_token: await ci.sign(jobClaims), resource })
    expect((await open()).body).not.toContain('refused')
  })

  it('shows until when the name of a new package is reserved', async () => {
    const { open, send } = await aVisitor()
    await send('/new', { ...gitHub, packages: 'acme/*' })
    expect((await open()).body).not.toContain('reserved until')
    await send('/new', { ...gitHub, packages: 'acme/new' })
    expect((await open()).body).toMatch(/>\s*reserved until <time datetime="[0-9T:.-]+Z">/)
  })

  it('removes one after a question', async () => {
    const { repository, url, open, send } = await aVisitor()
    const id = await aTrustedPublisher(t, ci, repository)
    expect((await open(`/remove?id=${id}`)).body).toContain('Remove the trusted publisher acme/lib?')
    expect((await send('/remove', { id })).headers.location).toBe(url)
    expect((await open()).body).toContain('There are no trusted publishers yet')
    expect((await send('/remove', { id })).statusCode).toBe(404)
  })

  it('is for admins of the repository', async () => {
    const { open, send } = await aVisitor({ role: 'developer' })
    expect((await open()).statusCode).toBe(403)
    expect((await open('/new')).statusCode).toBe(403)
    expect((await send('/new', gitHub)).statusCode).toBe(403)
  })
})
