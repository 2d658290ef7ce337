import { beforeEach, describe, expect, it } from 'vitest'
import { disableAccount } from '../../src/accounts/account-lifecycle.ts'
import { openDatabase } from '../../src/database/database.ts'
import { operator, type Principal } from '../../src/domain/principal.ts'
import { insertEvents, type NewEvent } from '../../src/events/events.ts'
import { changeChoices, findChoices, readLastRound } from '../../src/notifications/choices.ts'
import { toldActions } from '../../src/notifications/news-words.ts'
import { sendDigestsJob, tellPeopleJob } from '../../src/notifications/tell-people.ts'
import { topicNames } from '../../src/notifications/topics.ts'
import { setWatching, setWatchingGroup } from '../../src/notifications/watching.ts'
import { rejectStage } from '../../src/packages/stages/release.ts'
import { findStage, type Stage } from '../../src/packages/tables/staged-versions.ts'
import { openLog } from '../../src/web/server/log.ts'
import { removePassword, setAdministrator, unverifyEmail, verifyEmail } from '../support/account-rows.ts'
import {
  aGroupMember,
  aMember,
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
  csrfTokenIn,
  groupOf,
  post,
  signIn,
} from '../support/actors.ts'
import { callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { setVisibility } from '../support/group-rows.ts'
import {
  endConnections,
  openTransaction,
  untilTableIsAwaited,
  untilWaiting,
  waitingFor,
  whileLocked,
} from '../support/locks.ts'
import { sendMails, useMailServer } from '../support/mail-server.ts'
import { ageNews, countWaitingNews, digestDueAt, listRules, makeDigestDue } from '../support/news-rows.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { dropRows } from '../support/rows.ts'
import { atBrowser } from '../support/stage-rows.ts'

const mails = await useMailServer()
const t = useApp({ BASE_URL: 'https://svc.test', ...mails.environment })
const withoutMail = useApp()

beforeEach(() => {
  mails.received.length = 0
})

const allAtOnce = Object.fromEntries(topicNames.map((topic) => [topic, 'at_once']))
const ownerless: Principal = { ...operator, via: 'api' }
const inBrowser = ({ id }: { id: string }): Principal => ({ ...operator, via: 'browser', accountId: id })

/** A person who can get mails. */
async function aPerson({ isAdmin = false } = {}) {
  const email = `${aName('ann')}@example.com`
  const account = await anAccount(t.db, { email, isAdmin })
  await verifyEmail(t.db, account)
  return { ...account, email }
}

async function aWatcher(repository: { id: string }) {
  const person = await aPerson()
  await aMember(t.db, person, repository, 'guest')
  await setWatching(t.db, person.id, repository.id, true)
  return person
}

function happen(events: NewEvent | NewEvent[], by: Principal = ownerless): Promise<void> {
  return insertEvents(t.db, by, [events].flat())
}

const published = ({ id: repositoryId }: { id: string }, version: string, packageName = 'acme/lib') =>
  ({ action: 'publish', repositoryId, packageName, version }) as const

const mailsTo = ({ email }: { email: string }) =>
  mails.received.filter(({ recipients }) => recipients.includes(email))
const subjectsTo = (person: { email: string }) =>
  mailsTo(person).map(({ headers }) => headers.get('subject')?.[0])

const run = (job: typeof tellPeopleJob, db = t.db) =>
  job.run({ config: t.config, db, log: openLog('silent') }, {}, AbortSignal.any([]))

async function sendDigest(person: { id: string }): Promise<void> {
  await makeDigestDue(t.db, person)
  await Promise.all([run(sendDigestsJob), run(sendDigestsJob)])
  await sendMails(t)
}

it('has words for each action that people are told about, and a topic of each rule', async () => {
  const rules = await listRules(t.db)
  expect(rules.map(({ action }) => action).toSorted()).toEqual(toldActions.toSorted())
  expect(new Set(rules.map(({ topic }) => topic))).toEqual(new Set(topicNames))
})

describe('a release', () => {
  it('is told to who watches the repository and may read it when the mail is sent', async () => {
    const repository = await aRepository(t.db)
    const [watcher, author, former, disabled, unverified] = (await Promise.all(
      Array.from({ length: 5 }, () => aWatcher(repository)),
    )) as [Awaited<ReturnType<typeof aWatcher>>, ...Awaited<ReturnType<typeof aWatcher>>[]]
    const member = await aPerson()
    await aMember(t.db, member, repository, 'developer')
    await sendMails(t)
    await happen(published(repository, '1.2.0'), inBrowser(author as { id: string }))
    // A mail is queued for each of them now.
    await ageNews(t.db)
    await run(tellPeopleJob)
    await dropRows(t.db, 'repository_member', { accountId: former?.id })
    await disableAccount(t.db, operator, disabled?.id as string)
    await unverifyEmail(t.db, unverified as never)
    await sendMails(t)
    expect(mails.received.map(({ recipients }) => recipients)).toEqual([[watcher.email]])
    const [mail] = mailsTo(watcher)
    expect(mail?.headers.get('subject')?.[0]).toBe(
      `acme/lib 1.2.0 was published in ${repository.path} (svc.test)`,
    )
    expect(mail?.text).toContain(`https://svc.test/${repository.path}/packages/acme/lib`)
    expect(mail?.text).toContain('https://svc.test/settings/notifications')
    expect(mail?.headers.get('auto-submitted')).toEqual(['auto-generated'])
  })

  it('is one mail for a push of 10,000 versions, also with two processes', async () => {
    const repository = await aRepository(t.db)
    const watchers = [await aWatcher(repository), await aWatcher(repository)]
    const versions = Array.from({ length: 10_000 }, (_, n) => published(repository, `1.${n}.0`))
    await happen([...versions, published(repository, 'dev-main'), published(repository, '2.x-dev')])
    await ageNews(t.db)
    await Promise.all([run(tellPeopleJob), run(tellPeopleJob)])
    await sendMails(t)
    for (const watcher of watchers) {
      const subject = `10,000 versions were published in ${repository.path} (svc.test)`
      expect(subjectsTo(watcher)).toEqual([subject])
      expect(mailsTo(watcher)[0]?.text).toContain('and 9,990 more')
    }
  })

  it('waits while more of them come, at most half an hour', async () => {
    const repository = await aRepository(t.db)
    const watcher = await aWatcher(repository)
    await happen(published(repository, '1.0.0'))
    for (let age = 2; age <= 30; age += 2) {
      await ageNews(t.db)
      await happen(published(repository, `1.${age}.0`))
      await run(tellPeopleJob)
      expect(await countWaitingNews(t.db)).toBe(age < 30 ? age / 2 + 1 : 0)
    }
    await sendMails(t)
    expect(subjectsTo(watcher)).toEqual([`16 versions were published in ${repository.path} (svc.test)`])
  })

  it('is told once to who watches the group, of the repositories that they may read, also later ones', async () => {
    const [open, hidden] = [await aRepository(t.db, { visibility: 'public' }), await aRepository(t.db)]
    const { group } = hidden
    const [member, outsider, both] = [await aPerson(), await aPerson(), await aWatcher(hidden)]
    await aGroupMember(t.db, member, group, 'guest')
    for (const { id } of [member, outsider, both]) {
      await setWatchingGroup(t.db, id, group.id, true)
      await setWatchingGroup(t.db, id, open.group.id, true)
    }
    const later = await aRepository(t.db, { group })
    await setWatchingGroup(t.db, outsider.id, open.group.id, false)
    await sendMails(t)
    await happen([published(open, '1.0.0'), published(hidden, '2.0.0'), published(later, '3.0.0')])
    await sendMails(t)
    const toldOf = (person: { email: string }) => {
      const texts = mailsTo(person).map(({ text }) => text)
      expect(texts).toHaveLength(person === outsider ? 0 : 1)
      return [open, hidden, later].filter(({ path }) => texts[0]?.includes(`was published in ${path}`))
    }
    expect(toldOf(outsider)).toEqual([])
    expect(toldOf(both)).toEqual([open, hidden])
    expect(toldOf(member)).toEqual([open, hidden, later])
  })

  it('costs a repository that nobody watches nothing', async () => {
    const repository = await aRepository(t.db)
    await happen(published(repository, '1.0.0'))
    expect(await countWaitingNews(t.db)).toBe(0)
  })
})

it('a round whose process is killed is told once by another process', async () => {
  const repository = await aRepository(t.db)
  const watcher = await aWatcher(repository)
  await happen(published(repository, '1.0.0'))
  await ageNews(t.db)
  const own = openDatabase(t.connection, () => {})
  await whileLocked(t.db, 'notification_choice', async () => {
    const killed = run(tellPeopleJob, own).catch((error: Error) => error)
    await untilTableIsAwaited(t.db, 'notification_choice')
    await endConnections(t.db, await waitingFor(t.db, 'notification_choice', /with waiting/))
    expect(await killed).toBeInstanceOf(Error)
  })
  await own.end()
  expect(await countWaitingNews(t.db)).toBe(1)
  await Promise.all([run(tellPeopleJob), run(tellPeopleJob)])
  await sendMails(t)
  expect(subjectsTo(watcher)).toHaveLength(1)
})

it('an advisory and a quarantine are told to who administers or watches the repository', async () => {
  const repository = await aRepository(t.db)
  const [admin, watcher, developer] = [await aPerson(), await aWatcher(repository), await aPerson()]
  await aMember(t.db, admin, repository, 'admin')
  await aMember(t.db, developer, repository, 'developer')
  const about = { repositoryId: repository.id, packageName: 'acme/lib' }
  await happen({ ...about, action: 'quarantine', version: '1.0.0', details: { reason: 'stolen token' } })
  await happen({ ...about, action: 'advise', details: { title: 'It leaks', severity: 'high' } })
  await sendMails(t)
  for (const person of [admin, watcher]) {
    const subject = `Security: acme/lib 1.0.0 was quarantined in ${repository.path}, and 1 more (svc.test)`
    expect(subjectsTo(person)).toEqual([subject])
    expect(mailsTo(person)[0]?.text).toContain('acme/lib 1.0.0: stolen token')
    expect(mailsTo(person)[0]?.text).toContain('acme/lib: It leaks, high')
  }
  expect(mailsTo(developer)).toEqual([])
})

describe('what waits for a decision', () => {
  it('is told to those who may decide, not to whom staged it in a browser, and not if it is decided before', async () => {
    const { repository, stage } = await aPublisher(t, { role: 'developer' })
    const [admin, developer, guest] = [await aPerson(), await aPerson(), await aPerson()]
    await aGroupMember(t.db, admin, await groupOf(t.db, repository), 'admin')
    await aMember(t.db, developer, repository, 'developer')
    await aMember(t.db, guest, repository, 'guest')
    const { id } = (await stage('1.0.0')).json() as { id: string }
    await sendMails(t)
    const subject = `acme/lib 1.0.0 waits for its release in ${repository.path} (svc.test)`
    expect(subjectsTo(admin)).toEqual([subject])
    expect(subjectsTo(developer)).toEqual([subject])
    expect(mailsTo(guest)).toEqual([])
    expect(mailsTo(admin)[0]?.text).toContain(`https://svc.test/${repository.path}/-/stages/${id}`)

    const about = { repositoryId: repository.id, packageName: 'acme/lib', version: '1.0.0' }
    const again = () => happen({ ...about, action: 'stage', details: { stage: id } }, inBrowser(developer))
    await again()
    await sendMails(t)
    expect([mailsTo(admin).length, mailsTo(developer).length]).toEqual([2, 1])
    await again()
    await ageNews(t.db)
    await run(tellPeopleJob)
    const staged = (await findStage(t.db, id)) as Stage
    await rejectStage(t.db, { stage: staged, by: await atBrowser(t, admin), reason: '' })
    await sendMails(t)
    expect([mailsTo(admin).length, mailsTo(developer).length]).toEqual([2, 1])
  })

  it('is told to site administrators when it is an application', async () => {
    const [site, person] = [await aPerson({ isAdmin: true }), await aPerson()]
    await anApplication(t.db, { name: 'Robot', status: 'pending' })
    await anApplication(t.db, { name: 'Approved' })
    await sendMails(t)
    expect(subjectsTo(site)).toEqual(['The application Robot waits for its review (svc.test)'])
    expect(mailsTo(person)).toEqual([])
    await setAdministrator(t.db, site, false)
  })
})

describe('an application that does not accept logout tokens (OPENID 261)', () => {
  it('is told to its developer, or to site administrators if nobody is known', async () => {
    const [site, developer] = [await aPerson({ isAdmin: true }), await aPerson()]
    const backchannelLogoutUri = 'https://app.example.com/logout'
    const [own, other] = [
      await anApplication(t.db, { name: 'Portal', backchannelLogoutUri }),
      await anApplication(t.db, { name: 'Intranet', backchannelLogoutUri }),
    ]
    const details = { url: 'https://app.example.com', reason: 'app.example.com responded with status 500' }
    const about = { action: 'application-unreachable', details } as const
    await happen([
      { ...about, accountId: developer.id, applicationId: own.id },
      { ...about, applicationId: other.id },
    ])
    await ageNews(t.db)
    await run(tellPeopleJob)
    await sendMails(t)
    expect(mailsTo(developer).map(({ text }) => text)).toEqual([
      expect.stringMatching(
        /The application Portal does not accept.*https:\/\/svc\.test\/settings\/applications/s,
      ),
    ])
    expect(mailsTo(site).map(({ text }) => text)).toEqual([
      expect.stringMatching(
        /The application Intranet does not accept.*https:\/\/svc\.test\/admin\/applications/s,
      ),
    ])
  })
})

describe('a choice', () => {
  it('of the daily digest is one mail a day with all topics, and none without news', async () => {
    const repository = await aRepository(t.db)
    const watcher = await aWatcher(repository)
    await aGroupMember(t.db, watcher, repository.group, 'admin')
    await changeChoices(t, watcher.id, { releases: 'daily', tokens: 'daily', alarms: 'off', digestHour: 7 })
    await happen(published(repository, '1.0.0'))
    await happen(published(repository, '1.1.0', 'acme/other'))
    const token = { groupId: repository.group.id, action: 'create-deploy-token' } as const
    await happen({ ...token, details: { name: 'ci', right: 'publish' } })
    await happen({ action: 'archive-alarm', repositoryId: repository.id, packageName: 'acme/lib' })
    await sendMails(t)
    expect(mailsTo(watcher)).toEqual([])
    await sendDigest(watcher)
    expect(subjectsTo(watcher)).toEqual(['Daily digest: 3 notifications (svc.test)'])
    const text = mailsTo(watcher)[0]?.text.replaceAll('\r\n', '\n')
    expect(text).toContain(
      `2 versions were published in ${repository.path}\n\n  acme/lib 1.0.0\n  acme/other 1.1.0\n`,
    )
    expect(text).toContain(`A deploy token of ${repository.group.name} was created\n\n  ci, publish\n`)
    await sendDigest(watcher)
    expect(mailsTo(watcher)).toHaveLength(1)
    const due = await digestDueAt(t.db, watcher)
    expect([due.getUTCHours(), due.getUTCMinutes(), due > new Date()]).toEqual([7, 0, true])
  })

  it('changes nothing that was told, and loses nothing that waits for the digest', async () => {
    const repository = await aRepository(t.db)
    const watcher = await aWatcher(repository)
    await happen(published(repository, '1.0.0'))
    await sendMails(t)
    await changeChoices(t, watcher.id, { releases: 'daily' })
    await happen(published(repository, '2.0.0'))
    await sendMails(t)
    await changeChoices(t, watcher.id, { releases: 'at_once' })
    await changeChoices(t, watcher.id, { releases: 'daily' })
    await sendDigest(watcher)
    expect(subjectsTo(watcher)).toEqual([
      `acme/lib 1.0.0 was published in ${repository.path} (svc.test)`,
      `acme/lib 2.0.0 was published in ${repository.path} (svc.test)`,
    ])
  })

  it('comes before a round or after it', async () => {
    const repository = await aRepository(t.db)
    const watcher = await aWatcher(repository)
    await happen(published(repository, '1.0.0'))
    await ageNews(t.db)
    const { tx, commit } = await openTransaction(t.db)
    // A choice that is being made.
    await readLastRound(tx)
    const round = run(tellPeopleJob)
    await untilWaiting(t.db, 1, 'update news_round')
    const choice = changeChoices(t, watcher.id, { releases: 'daily' })
    await commit()
    await Promise.all([round, choice])
    await sendMails(t)
    await sendDigest(watcher)
    expect(mailsTo(watcher)).toHaveLength(1)
  })

  it('is made at /settings/notifications and with the API', async () => {
    const repository = await aRepository(t.db, { visibility: 'public' })
    const hidden = await aRepository(t.db)
    const person = await aPerson()
    const cookie = await signIn(t.app, person)
    const get = (url: string) => t.app.inject({ url, headers: { cookie } })
    const settings = await get('/settings/notifications')
    expect(settings.body).toContain(person.email)
    const form = { csrf_token: csrfTokenIn(settings) }
    const chosen = {
      releases: 'daily',
      approvals: 'off',
      alarms: 'at_once',
      advisories: 'daily',
      tokens: 'off',
    }
    const saved = await post(t.app, '/settings/notifications', cookie, {
      ...form,
      ...chosen,
      digest_hour: '18',
    })
    expect(saved.headers.location).toBe('/settings/notifications')
    const refused = await post(t.app, '/settings/notifications', cookie, {
      ...form,
      ...chosen,
      digest_hour: '24',
    })
    expect(refused.statusCode).toBe(400)

    const token = await aPersonalToken(t.db, person, { scopes: ['account-profile:rw'] })
    const call = async (method: 'GET' | 'PATCH' | 'PUT' | 'DELETE', url: string, body?: object) => {
      const response = await callApi(t, token, method, `/api/user/${url}`, body)
      return response.body === '' ? response.statusCode : response.json()
    }
    const now = { ...chosen, digest_hour: 18, sends_mail: true }
    expect(await call('GET', 'notifications')).toEqual(now)
    expect(await call('PATCH', 'notifications', { tokens: 'daily' })).toEqual({ ...now, tokens: 'daily' })
    expect(await call('PATCH', 'notifications', { tokens: 'never' })).toMatchObject({ errcode: 3 })
    expect(await call('PATCH', 'notifications', { digest_hour: 24 })).toMatchObject({ errcode: 3 })

    const page = await get(`/${repository.path}`)
    const watch = (path: string, value: string) =>
      post(t.app, `/${path}/-/watch`, cookie, { csrf_token: csrfTokenIn(page), watch: value })
    expect(page.body).toMatch(/value="yes">Watch</)
    expect((await watch(repository.path, 'yes')).headers.location).toBe(`/${repository.path}`)
    expect((await watch(hidden.path, 'yes')).statusCode).toBe(404)
    expect((await get(`/${repository.path}`)).body).toMatch(/value="no">Stop watching</)
    expect((await get('/settings/notifications')).body).toContain(`href="/${repository.path}"`)
    expect(await call('GET', 'watched')).toEqual([{ repository: repository.path, visibility: 'public' }])
    expect(await call('DELETE', `watched/${repository.path}`)).toBe(204)
    expect(await call('GET', 'watched')).toEqual([])
    expect(await call('PUT', `watched/${hidden.path}`)).toMatchObject({ errcode: 5 })
    expect(await call('PUT', `watched/${repository.path}`)).toBe(204)
    await watch(repository.path, 'no')
    expect(await call('GET', 'watched')).toEqual([])

    const name = repository.group.name
    expect((await get(`/${name}`)).body).toMatch(/value="yes">Watch</)
    expect((await watch(name, 'yes')).headers.location).toBe(`/${name}`)
    expect((await watch(hidden.group.name, 'yes')).statusCode).toBe(404)
    expect((await get(`/${name}`)).body).toMatch(/value="no">Stop watching</)
    expect((await get('/settings/notifications')).body).toContain(`action="/${name}/-/watch"`)
    expect(await call('GET', 'watched-groups')).toEqual([{ group: name }])
    expect(await call('DELETE', `watched-groups/${name}`)).toBe(204)
    expect(await call('GET', 'watched-groups')).toEqual([])
    expect(await call('PUT', `watched-groups/${hidden.group.name}`)).toMatchObject({ errcode: 5 })
    expect(await call('PUT', `watched-groups/${name}`)).toBe(204)
    await setVisibility(t.db, repository, 'private')
    expect(await call('GET', 'watched-groups')).toEqual([])
  })
})

describe('the link that ends mails (RFC 8058)', () => {
  async function aToldWatcher() {
    const repository = await aRepository(t.db)
    const watcher = await aWatcher(repository)
    await happen(published(repository, '1.0.0'))
    await sendMails(t)
    const [mail] = mailsTo(watcher)
    const [, url = ''] =
      /^<https:\/\/svc\.test(\/unsubscribe\?token=[\w.-]+)>$/.exec(
        mail?.headers.get('list-unsubscribe')?.[0] ?? '',
      ) ?? []
    return { watcher, mail, url }
  }

  it.each([
    ['application/x-www-form-urlencoded', 'List-Unsubscribe=One-Click'],
    [
      'multipart/form-data; boundary=x',
      '--x\r\ncontent-disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--\r\n',
    ],
  ])('works with one POST of %s, without a cookie, and only for its topic', async (type, payload) => {
    const { watcher, mail, url } = await aToldWatcher()
    expect(mail?.headers.get('list-unsubscribe-post')).toEqual(['List-Unsubscribe=One-Click'])
    expect(mail?.text).toContain(`https://svc.test${url}`)
    await removePassword(t.db, watcher)
    const headers = { 'content-type': type, origin: 'null' }
    for (const _time of [1, 2]) {
      const done = await t.app.inject({ method: 'POST', url, headers, payload })
      expect(done.statusCode).toBe(200)
      expect(done.cookies).toEqual([])
      expect(done.body).toContain('You no longer get <strong>mails about releases</strong>')
      expect(done.body).toContain('href="/settings/notifications"')
    }
    const choices = { ...allAtOnce, releases: 'off', digestHour: 7 }
    expect(await findChoices(t.db, watcher.id)).toEqual(choices)
  })

  it('changes nothing when a program opens it, and is refused when it was changed', async () => {
    const { watcher, url } = await aToldWatcher()
    const page = await t.app.inject(url)
    expect(page.statusCode).toBe(200)
    expect(page.body).toContain('<button class="wide" type="submit" autofocus>Unsubscribe</button>')
    const [id = '', topic = '', signature = ''] = url.split('=')[1]?.split('.') ?? []
    const other = await aPerson()
    for (const wrong of [
      `${other.id}.${topic}.${signature}`,
      `${id}.tokens.${signature}`,
      `${id}.${topic}`,
      '',
    ])
      for (const method of ['GET', 'POST'] as const) {
        const response = await t.app.inject({ method, url: `/unsubscribe?token=${wrong}` })
        expect([response.statusCode, response.body]).toEqual([
          404,
          expect.stringMatching(
            /This link is not complete\. Copy all of it[\s\S]*"\/settings\/notifications">Choose what you are told</,
          ),
        ])
      }
    const large = await t.app.inject({ method: 'POST', url, payload: Buffer.alloc(20_000) })
    expect(large.statusCode).toBe(413)
    for (const { id } of [watcher, other]) expect(await findChoices(t.db, id)).toMatchObject(allAtOnce)
    expect(t.log()).not.toContain(signature)
  })

  it('ends the digest, with all of its topics', async () => {
    const repository = await aRepository(t.db)
    const watcher = await aWatcher(repository)
    await changeChoices(t, watcher.id, { releases: 'daily', alarms: 'daily' })
    await happen(published(repository, '1.0.0'))
    await sendMails(t)
    await sendDigest(watcher)
    const [, url = ''] =
      /<https:\/\/svc\.test(.+)>/.exec(mailsTo(watcher)[0]?.headers.get('list-unsubscribe')?.[0] ?? '') ?? []
    expect((await t.app.inject({ method: 'POST', url })).statusCode).toBe(200)
    expect(await findChoices(t.db, watcher.id)).toMatchObject({
      ...allAtOnce,
      releases: 'off',
      alarms: 'off',
    })
    await happen(published(repository, '2.0.0'))
    await sendMails(t)
    await sendDigest(watcher)
    expect(mailsTo(watcher)).toHaveLength(1)
  })
})

it('a site without a mail server says so, and keeps no news', async () => {
  const { app, config, db } = withoutMail
  const admin = await anAccount(db, { isAdmin: true })
  await anApplication(db, { status: 'pending' })
  expect(await countWaitingNews(db)).toBe(1)
  await tellPeopleJob.run({ config, db, log: openLog('silent') }, {}, AbortSignal.any([]))
  expect(await countWaitingNews(db)).toBe(0)
  const cookie = await signIn(app, admin)
  const page = await app.inject({ url: '/settings/notifications', headers: { cookie } })
  expect(page.body).toContain('This site sends no mails')
  const { path } = await aRepository(db, { visibility: 'public' })
  expect((await app.inject({ url: `/${path}`, headers: { cookie } })).body).not.toContain('/-/watch')
})
