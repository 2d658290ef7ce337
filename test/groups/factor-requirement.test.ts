import { beforeEach, describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { noteRequiredFactorsJob, requireFactorOfMembers } from '../../src/groups/factor-requirement.ts'
import { enqueue } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { verifyEmail } from '../support/account-rows.ts'
import { aGroup, aGroupMember, aMember, aName, anAccount, aRepository, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { aPersonWithTotp, enrol } from '../support/factor-actors.ts'
import { isFactorDue, moveGrace, setFactorAsBefore } from '../support/group-rows.ts'
import { makeJobsDue } from '../support/job-rows.ts'
import { sendMails, useMailServer } from '../support/mail-server.ts'
import { dropRows } from '../support/rows.ts'

const server = await useMailServer()
const inTenDays = new Date(Date.now() + 10 * 86_400_000).toISOString()
const t = useApp({ ...server.environment, BASE_URL: 'https://svc.example.com' })
const site = useApp({
  ...server.environment,
  BASE_URL: 'https://svc.example.com',
  REQUIRE_SECOND_FACTOR: 'admins',
  REQUIRE_SECOND_FACTOR_FROM: inTenDays,
})

beforeEach(() => {
  server.received.length = 0
})

async function aPersonWithMail(db: typeof t.db, { isAdmin = false } = {}) {
  const email = `${aName('person')}@example.com`
  const account = await anAccount(db, { email, isAdmin })
  await verifyEmail(db, account)
  return { ...account, email }
}

/** Runs the job that queues the mails, and sends them. Returns the subjects of those that arrived since. */
async function mailsOf({ app, config, db } = t): Promise<{ to: string; subject: string; text: string }[]> {
  server.received.length = 0
  await enqueue(db, noteRequiredFactorsJob, undefined)
  await runDueJobs({ config, db }, [noteRequiredFactorsJob], app.log)
  await makeJobsDue(db)
  await sendMails({ app, config, db } as typeof t)
  return server.received
    .filter(({ headers }) => headers.get('subject')?.[0]?.includes('requires a second factor'))
    .map(({ recipients, headers, text }) => ({
      to: String(recipients[0]),
      subject: String(headers.get('subject')?.[0]),
      text,
    }))
}

describe('a second factor that a group requires after a grace period', () => {
  it('is announced by mail to members without one, and again before the end', async () => {
    const group = await aGroup(t.db)
    const [member, ofRepository, unverified] = [
      await aPersonWithMail(t.db),
      await aPersonWithMail(t.db),
      await anAccount(t.db, { email: `${aName('x')}@example.com` }),
    ]
    await aGroupMember(t.db, member, group, 'developer')
    await aMember(t.db, ofRepository, await aRepository(t.db, { group }), 'guest')
    await aGroupMember(t.db, unverified, group, 'guest')
    const safe = await aPersonWithTotp(t)
    await aGroupMember(t.db, safe, group, 'guest')
    await requireFactorOfMembers(t.db, operator, group, { isRequired: true, graceDays: 14 })

    const first = await mailsOf()
    expect(first.map(({ to }) => to).toSorted()).toEqual([member.email, ofRepository.email].toSorted())
    expect(first[0]?.subject).toContain(`${group.name} requires a second factor from`)
    expect(first[0]?.text).toContain('https://svc.example.com/settings/second-factor')
    expect(await mailsOf()).toEqual([])

    await enrol(t, ofRepository, await signIn(t.app, ofRepository))
    await moveGrace(t.db, group, '12 days')
    const second = await mailsOf()
    expect(second.map(({ to, subject }) => [to, subject.includes('soon')])).toEqual([[member.email, true]])
    expect(await mailsOf()).toEqual([])
  })

  it('causes no mail when it is required at once, or no longer', async () => {
    const group = await aGroup(t.db)
    await aGroupMember(t.db, await aPersonWithMail(t.db), group, 'developer')
    await requireFactorOfMembers(t.db, operator, group, { isRequired: true, graceDays: 0 })
    expect(await mailsOf()).toEqual([])
    const other = await aGroup(t.db)
    await aGroupMember(t.db, await aPersonWithMail(t.db), other, 'developer')
    await requireFactorOfMembers(t.db, operator, other, { isRequired: true, graceDays: 14 })
    await requireFactorOfMembers(t.db, operator, other, { isRequired: false })
    expect(await mailsOf()).toEqual([])
  })

  it('that the previous release left behind during an upgrade ends with the next change', async () => {
    const group = await aGroup(t.db)
    const other = await aGroup(t.db)
    for (const one of [group, other]) {
      await requireFactorOfMembers(t.db, operator, one, { isRequired: true, graceDays: 14 })
      await setFactorAsBefore(t.db, one, false)
      expect(await isFactorDue(t.db, one)).toBe(false)
    }
    await setFactorAsBefore(t.db, other, true)
    for (const one of [group, other]) {
      await requireFactorOfMembers(t.db, operator, one, { isRequired: true, graceDays: 0 })
      expect(await isFactorDue(t.db, one)).toBe(true)
    }
  })
})

describe('REQUIRE_SECOND_FACTOR_FROM', () => {
  it('lets people without a second factor go on until then, and tells them in pages and mails', async () => {
    await dropRows(site.db, 'job', {})
    const admin = await aPersonWithMail(site.db, { isAdmin: true })
    await aPersonWithMail(site.db)
    const cookie = await signIn(site.app, admin)
    const home = await site.app.inject({ url: '/', headers: { cookie } })
    expect(home.statusCode).toBe(200)
    expect(home.body).toMatch(/svc\s+requires a second factor\s+<time/)
    const page = await site.app.inject({ url: '/settings/second-factor', headers: { cookie } })
    expect(page.body).toMatch(/This server requires a second factor\s+<time/)
    const mails = await mailsOf(site)
    expect(mails.map(({ to, subject }) => [to, subject.startsWith('svc.example.com requires')])).toEqual([
      [admin.email, true],
    ])
  })
})
