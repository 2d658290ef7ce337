import { describe, expect, it } from 'vitest'
import { aMember, anAccount, anAdminToken, aPersonalToken, aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { issuersHere, useCiIssuer } from '../support/ci-issuer.ts'
import { useCommands } from '../support/commands.ts'
import { exchangeAt, jobClaims, pullWith } from '../support/publisher-actors.ts'

const t = useApp(issuersHere)
const ci = useCiIssuer()

/** A repository with its admin. */
async function aManagedRepository() {
  const repository = await aRepository(t.db)
  const account = await anAccount(t.db)
  await aMember(t.db, account, repository, 'admin')
  const token = await aPersonalToken(t.db, account, { scopes: ['registry-manage:rw'] })
  const reader = await aPersonalToken(t.db, account, { scopes: ['registry-manage:r'] })
  const url = `/api/repositories/${repository.path}/trusted-publishers`
  const call = (method: 'GET' | 'POST' | 'DELETE', below = '', payload?: object, bearer = token) =>
    t.app.inject({
      method,
      url: url + below,
      headers: { authorization: `Bearer ${bearer}` },
      ...(payload && { payload }),
    })
  return { repository, account, reader, call }
}

const draft = { provider: 'github', project: 'Acme/Lib', workflow: 'release.yml', right: 'publish' }

describe('/api/repositories/<group>/<name>/trusted-publishers', () => {
  it('adds, lists and removes publishers, and ends the tokens of a removed one', async () => {
    const { account, call, reader } = await aManagedRepository()
    const added = await call('POST', '', { ...draft, claims: { ref: 'refs/heads/*' } })
    expect(added.statusCode).toBe(201)
    expect(added.json()).toEqual({
      id: expect.any(Number),
      provider: 'github',
      issuer: 'https://token.actions.githubusercontent.com',
      project: 'Acme/Lib',
      workflow: 'release.yml',
      environment: null,
      workflow_project: null,
      claims: { ref: 'refs/heads/*' },
      packages: ['*/*'],
      right: 'publish',
      pins: {},
      made_by: account.username,
      created_at: expect.any(String),
      reserved_packages: [],
      reserved_until: null,
      last_exchange: null,
    })
    const { id } = added.json()
    expect((await call('GET', '', undefined, reader)).json()).toEqual([added.json()])
    expect((await call('POST', '', draft, reader)).statusCode).toBe(403)
    const elsewhere = await aManagedRepository()
    expect((await elsewhere.call('DELETE', `/${id}`)).statusCode).toBe(404)
    expect((await call('DELETE', `/${id}`)).statusCode).toBe(204)
    expect((await call('DELETE', `/${id}`)).statusCode).toBe(404)
    expect((await call('GET')).json()).toEqual([])
  })

  it.each<[string, Record<string, unknown>]>([
    ['no provider', { ...draft, provider: undefined }],
    ['no project', { ...draft, project: undefined }],
    ['a project without an owner', { ...draft, project: 'lib' }],
    ['no workflow', { ...draft, workflow: undefined }],
    ['a workflow with its folder', { ...draft, workflow: '.github/workflows/release.yml' }],
    ['an issuer that is no URL', { ...draft, issuer: 'token.actions.githubusercontent.com' }],
    ['an issuer with credentials', { ...draft, issuer: 'https://a@example.com' }],
    ['an issuer with http', { ...draft, issuer: 'http://ci.example.com' }],
    ['no package', { ...draft, packages: [] }],
    ['a pattern with a constraint', { ...draft, packages: ['acme/*:^1'] }],
    ['claims without an issuer', { provider: 'claims', claims: { a: 'b' }, right: 'read' }],
    [
      'claims of which none names a project',
      { provider: 'claims', issuer: 'https://ci.example.com', claims: { project: 'acme/*' }, right: 'read' },
    ],
    ...[{ ref: 'refs/heads/main' }, { repository_owner: 'acme', environment: 'production' }].map(
      (claims): [string, Record<string, unknown>] => [
        `claims that many projects share: ${Object.keys(claims).join(' and ')}`,
        { provider: 'claims', issuer: 'https://ci.example.com', claims, right: 'read' },
      ],
    ),
    ['an unknown member', { ...draft, sub: 'x' }],
  ])('refuses %s', async (_name, body) => {
    const { call } = await aManagedRepository()
    const response = await call('POST', '', body)
    expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
  })

  it('has at most a hundred in a repository', async () => {
    const { call } = await aManagedRepository()
    for (let i = 0; i < 100; i += 1) expect((await call('POST', '', draft)).statusCode).toBe(201)
    expect((await call('POST', '', draft)).statusCode).toBe(403)
  })

  it('compares a token with each publisher, and issues nothing', async () => {
    const { call, reader, repository } = await aManagedRepository()
    const account = await anAccount(t.db, { isAdmin: true })
    const admin = await anAdminToken(t.db, account, { scopes: ['registry-manage:rw'] })
    const own = { ...draft, issuer: ci.issuer }
    const ids = [
      (await call('POST', '', own, admin)).json().id,
      (await call('POST', '', { ...own, environment: 'production', packages: ['acme/*'] }, admin)).json().id,
      (await call('POST', '', { ...draft, right: 'read' })).json().id,
    ]
    const token = await ci.sign(jobClaims)
    for (let i = 0; i < 2; i += 1) {
      const response = await call('POST', '/check', { token }, reader)
      expect(response.statusCode).toBe(200)
      expect(response.json()).toEqual({
        audience: 'http://svc.test',
        claims: expect.objectContaining({ iss: ci.issuer, repository: 'acme/lib' }),
        publishers: [
          { id: ids[0], matches: true, differs: [], right: 'publish', packages: ['*/*'] },
          {
            id: ids[1],
            matches: false,
            differs: [{ claim: 'environment', expected: 'production', given: null }],
            right: 'publish',
            packages: ['acme/*'],
          },
          {
            id: ids[2],
            matches: false,
            differs: [
              { claim: 'iss', expected: 'https://token.actions.githubusercontent.com', given: ci.issuer },
            ],
            right: 'read',
            packages: ['*/*'],
          },
        ],
      })
    }
    const expired = await ci.sign({ ...jobClaims, exp: 1 })
    const [first] = (await call('POST', '/check', { token: expired }, reader)).json().publishers
    expect(first.differs).toMatchObject([{ claim: 'exp', given: '1' }])
    const forged = `${token.slice(0, token.lastIndexOf('.'))}.AAAA`
    const [wrong] = (await call('POST', '/check', { token: forged }, reader)).json().publishers
    expect(wrong).toMatchObject({ matches: false, differs: [{ claim: 'signature' }] })
    expect((await call('POST', '/check', { token: 'x' }, reader)).statusCode).toBe(400)
    const resource = `http://svc.test/${repository.path}/-/packages/`
    const exchanged = await exchangeAt(t, { subject_token: token, resource })
    expect(exchanged.statusCode).toBe(200)
    const [used] = (await call('GET')).json()
    expect(used).toMatchObject({
      pins: { repository_id: '17', repository_owner_id: '4' },
      last_exchange: { outcome: 'issued', differs: [], run: { project: 'acme/lib', commit: 'c0ffee' } },
    })
    expect((await call('DELETE', `/${used.id}`)).statusCode).toBe(204)
    expect((await pullWith(t, repository, exchanged.json().access_token)).statusCode).toBe(401)
  })
})

describe('svc trusted-publisher', () => {
  const svc = useCommands(t)

  it('adds, lists and removes publishers', async () => {
    const { path } = await aRepository(t.db)
    const issuer = 'https://ci.example.com'
    const { id } = await svc.json<{ id: number }>(
      ...['trusted-publisher', 'add', path, '--provider', 'claims', '--issuer', issuer, '--right', 'read'],
      ...['--claim', 'project=acme/lib', '--claim', 'ref=refs/*', '--package', 'acme/*'],
    )
    const { items } = await svc.json<{ items: object[] }>('trusted-publisher', 'list', path)
    const claims = { project: 'acme/lib', ref: 'refs/*' }
    expect(items).toMatchObject([{ id, issuer, claims, packages: ['acme/*'], right: 'read', made_by: null }])
    expect((await svc.run('trusted-publisher', 'list', path)).stdout).toContain('never used')
    expect(await svc.fail('trusted-publisher', 'remove', 'x')).toContain('is no id')
    expect(await svc.json('trusted-publisher', 'remove', String(id))).toEqual({ id })
    expect(await svc.fail('trusted-publisher', 'remove', String(id))).toContain(
      'There is no trusted publisher',
    )
  })
})
