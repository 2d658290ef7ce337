import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { enqueue } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { releaseStage } from '../../src/packages/stages/release.ts'
import { findStageOf } from '../../src/packages/tables/staged-versions.ts'
import { noteLapsingReservationsJob } from '../../src/publishers/reservation-notices.ts'
import { listPublishers, removePublisher } from '../../src/publishers/trusted-publishers.ts'
import { verifyEmail } from '../support/account-rows.ts'
import { aMember, aName, anAccount } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { issuersHere, useCiIssuer } from '../support/ci-issuer.ts'
import { sendMails, useMailServer } from '../support/mail-server.ts'
import { aTrustedPublisher, aTrustedRepository, jobClaims, pushWith } from '../support/publisher-actors.ts'
import { agePublisher, firstVersionOf } from '../support/publisher-rows.ts'
import { aPublisher } from '../support/registry-actors.ts'

const server = await useMailServer()
const t = useApp({ ...server.environment, ...issuersHere, BASE_URL: 'http://svc.test' })
const ci = useCiIssuer()

/** A repository whose trusted publisher reserves `acme/lib`, and a developer of it. */
async function aReservation(wanted: Parameters<typeof aTrustedRepository>[2] = {}) {
  const trusted = await aTrustedRepository(t, ci, { packages: ['acme/lib'], ...wanted })
  const { repository } = trusted
  const developer = await aPublisher(t, { repository })
  const pushed = async (version = '1.0.0', name = 'acme/lib') => {
    const { statusCode, body } = await developer.push(version, { name })
    return [statusCode, statusCode === 201 ? null : (JSON.parse(body) as { errmsg: string }).errmsg]
  }
  const jobToken = async (claims = {}): Promise<string> =>
    (await trusted.exchange(await ci.sign({ ...jobClaims, ...claims }))).json().access_token
  const reserved = async () =>
    (await listPublishers(t.db, repository.id, { after: null, limit: 9 })).map((one) => one.reservedNames)
  return { ...trusted, developer, pushed, jobToken, reserved }
}

const refused = [409, expect.stringMatching(/^acme\/lib is reserved for a trusted publisher until /)]

describe('the name of a package that does not exist yet', () => {
  it('is reserved for its trusted publisher', async () => {
    const { id, developer, repository, pushed, jobToken, reserved } = await aReservation()
    expect(await reserved()).toEqual([['acme/lib']])
    expect(await pushed()).toEqual(refused)
    expect((await developer.push('1.0.0', { name: 'acme/lib' })).body).toContain(
      `ask an admin of the repository to remove the trusted publisher ${id}`,
    )
    expect((await developer.stage('1.0.0', { name: 'acme/lib' })).statusCode).toBe(409)
    expect(await pushed('1.0.0', 'acme/other')).toEqual([201, null])
    expect((await pushWith(t, repository, await jobToken())).statusCode).toBe(201)
    expect(await reserved()).toEqual([[]])
    expect(await pushed('1.0.1')).toEqual([201, null])
  })

  it.each<[string, Parameters<typeof aReservation>[0]]>([
    ['by a publisher that only reads', { right: 'read' }],
    ['by a pattern', { packages: ['acme/*'] }],
    ['in other repositories', { packages: ['acme/else'] }],
  ])('is not reserved %s', async (_name, wanted) => {
    const { pushed } = await aReservation(wanted)
    expect(await pushed()).toEqual([201, null])
  })

  it('is free again after 30 days, and when the publisher is removed', async () => {
    const [aged, removed] = [await aReservation(), await aReservation()]
    await agePublisher(t.db, aged.id, 29)
    expect(await aged.pushed()).toEqual(refused)
    await agePublisher(t.db, aged.id, 1)
    expect(await aged.reserved()).toEqual([[]])
    expect(await aged.pushed()).toEqual([201, null])
    await removePublisher(t.db, operator, { id: removed.id, repositoryId: null })
    expect(await removed.pushed()).toEqual([201, null])
  })

  it('is not reserved when the package exists', async () => {
    const { pushed, repository, reserved } = await aReservation({ packages: ['acme/other'] })
    expect(await pushed()).toEqual([201, null])
    await aTrustedPublisher(t, ci, repository, { packages: ['acme/lib'] })
    expect(await reserved()).toEqual([['acme/other'], []])
    expect(await pushed('1.0.1')).toEqual([201, null])
  })

  it('is for any of the publishers that match a job, and for no other one', async () => {
    const { repository, jobToken } = await aReservation()
    await aTrustedPublisher(t, ci, repository, { packages: ['acme/second'] })
    await aTrustedPublisher(t, ci, repository, { project: 'acme/second', packages: ['*/*'] })
    const other = await jobToken({
      repository: 'acme/second',
      workflow_ref: 'acme/second/.github/workflows/release.yml@refs/heads/main',
      job_workflow_ref: 'acme/second/.github/workflows/release.yml@refs/heads/main',
    })
    for (const name of ['acme/lib', 'acme/second'])
      expect((await pushWith(t, repository, other, { name })).statusCode).toBe(409)
    const own = await jobToken()
    for (const name of ['acme/lib', 'acme/second'])
      expect((await pushWith(t, repository, own, { name })).statusCode).toBe(201)
  })

  it('is published by a person who releases what its publisher has staged', async () => {
    const { repository, jobToken, developer, pushed } = await aReservation({ right: 'stage' })
    const staged = await pushWith(t, repository, await jobToken(), { to: 'stage' })
    expect(staged.statusCode).toBe(202)
    expect(await pushed('1.0.1')).toEqual(refused)
    const stage = await findStageOf(t.db, repository.id, staged.json().id)
    if (!stage) throw new Error('there is no stage')
    const by = { ...operator, accountId: developer.account.id }
    expect(await releaseStage(t.db, { stage, by, baseUrl: 'http://svc.test' })).toBe('released')
  })

  it('is not lost in a race', async () => {
    const { repository, jobToken, developer, reserved } = await aReservation()
    const token = await jobToken()
    const people = ['1.0.1', '1.0.2', '1.0.3', '1.0.4'].map((version) =>
      developer.push(version, { name: 'acme/lib' }),
    )
    await Promise.race(people)
    const own = await pushWith(t, repository, token)
    const statuses = (await Promise.all(people)).map(({ statusCode }) => statusCode)
    expect(own.statusCode).toBe(201)
    for (const status of statuses) expect([201, 409]).toContain(status)
    expect(await firstVersionOf(t.db, repository)).toBe('1.0.0')
    expect(await reserved()).toEqual([[]])
  })
})

describe('the notice of a reservation that lapses', () => {
  it('goes to the admins of the repository once, a week before', async () => {
    const { id, repository } = await aReservation()
    const email = `${aName('ann')}@example.com`
    const admin = await anAccount(t.db, { email })
    await verifyEmail(t.db, admin)
    await aMember(t.db, admin, repository, 'admin')
    const subjects = async () => {
      await enqueue(t.db, noteLapsingReservationsJob, {})
      await runDueJobs({ config: t.config, db: t.db }, [noteLapsingReservationsJob], t.app.log)
      await sendMails(t)
      const own = server.received.filter(({ recipients }) => recipients.includes(email))
      return own
        .flatMap(({ headers }) => headers.get('subject') ?? [])
        .filter((text) => /free soon/.test(text))
    }
    await agePublisher(t.db, id, 22)
    expect(await subjects()).toEqual([])
    await agePublisher(t.db, id, 1)
    const subject = expect.stringContaining(`Reserved package names of ${repository.path} become free soon`)
    expect(await subjects()).toEqual([subject])
    expect(await subjects()).toEqual([subject])
  })

  it('is not sent when the package was published before', async () => {
    const { id, repository, jobToken } = await aReservation()
    await pushWith(t, repository, await jobToken())
    await agePublisher(t.db, id, 24)
    await enqueue(t.db, noteLapsingReservationsJob, {})
    await runDueJobs({ config: t.config, db: t.db }, [noteLapsingReservationsJob], t.app.log)
    await sendMails(t)
    expect(server.received.filter(({ text }) => text.includes(repository.path))).toEqual([])
  })
})
