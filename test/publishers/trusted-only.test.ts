import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { restorePackage, restoreVersion } from '../../src/packages/lifecycle/deletion.ts'
import { releaseStage } from '../../src/packages/stages/release.ts'
import { findStage } from '../../src/packages/tables/staged-versions.ts'
import { aDeployToken, groupOf, signIn } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { issuersHere, useCiIssuer } from '../support/ci-issuer.ts'
import { useCommands } from '../support/commands.ts'
import { eventsOf } from '../support/event-rows.ts'
import { aTrustedPublisher, aTrustedRepository, jobClaims, pushWith } from '../support/publisher-actors.ts'

const t = useApp(issuersHere)
const svc = useCommands(t)
const ci = useCiIssuer()
const baseUrl = 'http://svc.test'
const refusal = { errcode: 7, errmsg: expect.stringContaining('only trusted publishers publish acme/lib') }

/** A package with version 1.0.0 that only trusted publishers publish from then on, and a token of one of them. */
async function aLimitedPackage({ staged = [] as string[] } = {}) {
  const admin = await aCaller(t)
  await admin.push('1.0.0')
  const stages: string[] = []
  for (const version of staged) stages.push((await admin.stage(version)).json().id)
  const { exchange } = await aTrustedRepository(t, ci, {}, admin.repository)
  const { access_token: token } = (await exchange(await ci.sign(jobClaims))).json()
  const limit = await admin.call('PATCH', '/packages/acme/lib', { only_trusted_publishers: true })
  return { ...admin, ci: token as string, limit, stages }
}

async function release(id: string, accountId: string | null = null) {
  const stage = await findStage(t.db, id)
  if (!stage) throw new Error(`no stage ${id}`)
  return releaseStage(t.db, { stage, by: { ...operator, accountId }, baseUrl })
}

describe('a package that only trusted publishers publish', () => {
  it('takes versions of a trusted publisher, and of nobody else', async () => {
    const { repository, limit, push, stage, ci: token } = await aLimitedPackage()
    expect([limit.statusCode, limit.json().only_trusted_publishers]).toEqual([200, true])
    const deployToken = await aDeployToken(t.db, await groupOf(t.db, repository), { right: 'publish' })
    for (const response of [
      await push('1.1.0'),
      await stage('1.1.0'),
      await pushWith(t, repository, deployToken, { version: '1.1.0' }),
    ]) {
      expect([response.statusCode, response.json()]).toEqual([403, expect.objectContaining(refusal)])
    }
    expect((await push('1.0.0', { name: 'acme/other' })).statusCode).toBe(201)
    expect((await pushWith(t, repository, token, { version: '1.1.0' })).statusCode).toBe(201)
  })

  it('gets no deleted version back, neither from an admin nor by a command', async () => {
    const { repository, call } = await aLimitedPackage()
    await call('DELETE', '/packages/acme/lib/1.0.0')
    expect((await call('POST', '/packages/acme/lib/1.0.0/restore')).json()).toMatchObject(refusal)
    const change = { repositoryId: repository.id, packageName: 'acme/lib', by: operator, baseUrl }
    await expect(restoreVersion(t.db, { ...change, version: '1.0.0' })).rejects.toMatchObject(refusal)
    await expect(restorePackage(t.db, change)).rejects.toMatchObject(refusal)
  })

  it('lets people release what a trusted publisher has staged, but not what a person has', async () => {
    const { repository, account, ci: token, stages } = await aLimitedPackage({ staged: ['1.1.0'] })
    for (const by of [account.id, null])
      await expect(release(String(stages[0]), by)).rejects.toMatchObject(refusal)
    const staged = await pushWith(t, repository, token, { to: 'stage', version: '1.2.0' })
    expect(await release(staged.json().id, account.id)).toBe('released')
  })

  it('is one by API, page and command, whose events have the old and the new value', async () => {
    const { repository, account, push } = await aLimitedPackage()
    const headers = { cookie: await signIn(t.app, account) }
    const url = `/${repository.path}/packages/acme/lib`
    const menu = async () => (await t.app.inject({ url, headers })).body
    expect(await menu()).toContain(`${url}/-/versions/end-only-trusted-publishers"`)
    const words = ['package', 'set', repository.path, 'acme/lib', '--only-trusted-publishers']
    expect(await svc.json(...words, 'no')).toMatchObject({ only_trusted_publishers: false })
    expect(await menu()).toContain(`${url}/-/versions/only-trusted-publishers"`)
    expect((await push('1.1.0')).statusCode).toBe(201)
    await svc.json(...words, 'no')
    const events = await eventsOf(t.db, { repositoryId: repository.id, action: 'change-package' }, [
      'actorId',
      'details',
    ])
    expect(events).toEqual([
      {
        actorId: account.id,
        details: { only_trusted_publishers: true, from: { only_trusted_publishers: false } },
      },
      { actorId: null, details: { only_trusted_publishers: false, from: { only_trusted_publishers: true } } },
    ])
  })

  it('says that nobody can publish it without a trusted publisher: on the page, by API and by command', async () => {
    const { repository, account, push, call } = await aCaller(t)
    await push('1.0.0')
    await aTrustedPublisher(t, ci, repository, { right: 'read' })
    await aTrustedPublisher(t, ci, repository, { packages: ['acme/other'] })
    const caution =
      'No trusted publisher of the repository publishes or stages acme/lib, so nobody can publish a version of it before one is added.'
    const headers = { cookie: await signIn(t.app, account) }
    const url = `/${repository.path}/packages/acme/lib/-/versions/only-trusted-publishers`
    const page = async () => (await t.app.inject({ url, headers })).body
    const limit = async () =>
      (await call('PATCH', '/packages/acme/lib', { only_trusted_publishers: true })).json()
    const words = ['package', 'set', repository.path, 'acme/lib', '--only-trusted-publishers']
    const text = async () => (await svc.run(...words, 'yes')).stdout
    expect(await page()).toContain(caution)
    expect((await limit()).details).toEqual([caution])
    expect(await svc.json<{ details: string[] }>(...words, 'yes')).toMatchObject({ details: [caution] })
    expect(await text()).toContain(caution)
    expect(await svc.json<{ details: string[] }>(...words, 'no')).toMatchObject({ details: [] })
    await aTrustedPublisher(t, ci, repository, { right: 'stage', packages: ['acme/l*'] })
    expect(await page()).not.toContain('No trusted publisher')
    expect(await limit()).not.toHaveProperty('details')
    expect(await text()).not.toContain('No trusted publisher')
  })
})
