import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { noteExpiringTokensJob } from '../../src/accounts/token-expiry-notices.ts'
import { background, operator } from '../../src/domain/principal.ts'
import { registryWords } from '../../src/events/actions.ts'
import { insertEvent, type NewEvent } from '../../src/events/events.ts'
import { enqueue } from '../../src/jobs/job.ts'
import { runJobs } from '../../src/jobs/run-jobs.ts'
import { openOutbound } from '../../src/outbound/outbound.ts'
import { openLog } from '../../src/web/server/log.ts'
import {
  type DeliveryDetails,
  deleteOldDeliveries,
  findDelivery,
  queueAgain,
  queuePing,
} from '../../src/webhooks/deliveries.ts'
import { choosableTypes, messageFormats } from '../../src/webhooks/message-types.ts'
import { retrySeconds } from '../../src/webhooks/send-webhook.ts'
import { changeWebhook, rotateSecret, type Webhook } from '../../src/webhooks/webhooks.ts'
import { verifyEmail } from '../support/account-rows.ts'
import {
  aDeployToken,
  aGroupMember,
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
  groupOf,
} from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import { listStoredJobs } from '../support/job-rows.ts'
import { sendMails, useMailServer } from '../support/mail-server.ts'
import { moveTokenInTime } from '../support/token-rows.ts'
import { aWebhook, sendMessages, site, webhookJobs } from '../support/webhook-actors.ts'
import { useReceivers, verify, webhooksHere } from '../support/webhook-receiver.ts'
import {
  addDelay,
  ageDeliveries,
  countAttempts,
  delayOfRetry,
  dueSeconds,
  isSlow,
  makeSlow,
  passDelays,
  passRotation,
  storedAboutWebhooks,
  typesOfActions,
} from '../support/webhook-rows.ts'

const mails = await useMailServer()
const t = useApp({ ...webhooksHere, ...mails.environment })
const server = useReceivers()

/** Writes an event of a repository. */
const happens = (repositoryId: string, event: Partial<NewEvent> = {}) =>
  insertEvent(t.db, operator, {
    action: 'publish',
    repositoryId,
    packageName: 'acme/lib',
    version: '1.0.0',
    ...event,
  })

const outboundOf = () => ({ config: t.config, db: t.db, outbound: undefined as never })

describe('a message', () => {
  it('goes to the webhooks of the repository, of its group and of the site, and to no others', async () => {
    const repository = await aRepository(t.db)
    const { id: groupId } = await groupOf(t.db, repository)
    const other = await aRepository(t.db)
    await aWebhook(t, { repositoryId: repository.id }, { url: server.receiver('of-repository') })
    await aWebhook(t, { groupId }, { url: server.receiver('of-group') })
    const ofSite = await aWebhook(t, site, { url: server.receiver('of-site') })
    await aWebhook(t, { repositoryId: other.id }, { url: server.receiver('of-other') })
    await happens(repository.id)
    await insertEvent(t.db, operator, { action: 'set-group-member', groupId, details: { username: 'ann' } })
    await insertEvent(t.db, operator, { action: 'sign-in' })
    await happens(repository.id, { action: 'change-repository', packageName: null, version: null })
    await sendMessages(t)
    const typesTo = (path: string) => server.received(path).map(({ body }) => JSON.parse(body).type)
    expect(typesTo('of-repository')).toEqual(['version.published'])
    expect(typesTo('of-group')).toEqual(['version.published', 'member.changed'])
    expect(typesTo('of-site')).toEqual(['version.published', 'member.changed'])
    expect(typesTo('of-other')).toEqual([])
    await changeWebhook(outboundOf(), { id: ofSite.id, place: null, by: operator }, { enabled: false })
  })

  it('tells that a token expires: once 7 days and once a day before, also with two processes', async () => {
    const repository = await aRepository(t.db)
    const { id: groupId, name: group } = await groupOf(t.db, repository)
    const account = await anAccount(t.db)
    const expiry = { inDays: 30 }
    await aDeployToken(t.db, { id: groupId }, { name: 'expiring-deploy', expiry })
    await aPersonalToken(t.db, account, { name: 'expiring-laptop', expiry })
    await aWebhook(t, { groupId }, { url: server.receiver('expiring-of-group') })
    const ofSite = await aWebhook(t, site, { url: server.receiver('expiring'), events: ['token.expiring'] })
    const checkTwice = async (times: Partial<Parameters<typeof moveTokenInTime>[2]>) => {
      for (const name of ['expiring-deploy', 'expiring-laptop'])
        await moveTokenInTime(t.db, name, { createdDaysAgo: 24, expiresInDays: 6, ...times })
      for (const _hour of [1, 2]) {
        const run = () => noteExpiringTokensJob.run({ ...t, log: openLog('silent') }, {}, AbortSignal.any([]))
        await Promise.all([run(), run()])
      }
      await sendMessages(t)
      return server.received('expiring').map(({ body }) => JSON.parse(body))
    }
    expect(await checkTwice({ createdDaysAgo: 0 })).toEqual([])
    const weekBefore = await checkTwice({})
    const expected = {
      type: 'token.expiring',
      data: {
        repository: null,
        package: null,
        version: null,
        by: null,
        expires_at: expect.stringMatching(/Z$/),
      },
    }
    const personal = {
      ...expected.data,
      ...{ group: null, name: 'expiring-laptop', username: account.username },
      url: 'http://svc.test/settings/tokens',
    }
    const deploy = {
      ...expected.data,
      ...{ group, name: 'expiring-deploy' },
      url: `http://svc.test/${group}/-/deploy-tokens`,
    }
    expect(weekBefore).toMatchObject([
      { ...expected, data: personal },
      { ...expected, data: deploy },
    ])
    expect(await checkTwice({ expiresInDays: 2, notedDaysAgo: 4 })).toHaveLength(2)
    expect(await checkTwice({ expiresInDays: 0.9, notedDaysAgo: 5.1 })).toHaveLength(4)
    const toGroup = server.received('expiring-of-group').map(({ body }) => JSON.parse(body).data.name)
    expect(toGroup).toEqual(['expiring-deploy', 'expiring-deploy'])
    const [message] = server.received('expiring')
    expect(verify(ofSite.secret, message as never)).toEqual(weekBefore[0])
    await changeWebhook(outboundOf(), { id: ofSite.id, place: null, by: operator }, { enabled: false })
  })

  it('has the headers and a signature of Standard Webhooks, and says what happened and where', async () => {
    const repository = await aRepository(t.db)
    const url = server.receiver('signed')
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url, events: ['version.published'] })
    await happens(repository.id)
    await happens(repository.id, { action: 'delete' })
    await sendMessages(t)
    const [message, ...more] = server.received('signed')
    expect(more).toEqual([])
    expect(webhook.secret).toMatch(/^whsec_/)
    expect(verify(webhook.secret, message as never)).toEqual({
      type: 'version.published',
      timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
      data: {
        group: repository.path.split('/')[0],
        repository: repository.path,
        package: 'acme/lib',
        version: '1.0.0',
        by: 'command line',
        url: `http://svc.test/${repository.path}/packages/acme/lib`,
      },
    })
    const [delivery] = await webhook.deliveries()
    expect(delivery).toMatchObject({ state: 'delivered', status: 204, attempts: 1, failure: null })
    expect(message?.headers['webhook-id']).toBe(delivery?.messageId)
  })

  it('is decided in the transaction of its event', async () => {
    const repository = await aRepository(t.db)
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url: server.receiver('undone') })
    const tx = await t.db.connect()
    await tx.query('begin')
    await insertEvent(tx, operator, { action: 'publish', repositoryId: repository.id })
    await tx.query('rollback')
    tx.release()
    expect(await webhook.deliveries()).toEqual([])
    expect((await listStoredJobs(t.db, 'send-webhook')).filter(({ key }) => key === webhook.id)).toEqual([])
  })

  it('of each type comes from an action, and each format is JSON', async () => {
    const types = await typesOfActions(t.db, Object.keys(registryWords))
    expect(types.sort()).toEqual([...choosableTypes].sort())
    const repository = await aRepository(t.db)
    for (const format of messageFormats) {
      const url = server.receiver(`format-${format}`)
      await aWebhook(t, { repositoryId: repository.id }, { url, format })
    }
    await happens(repository.id, { version: 'dev-<b>&[x](y)' })
    await sendMessages(t)
    const bodyTo = (path: string) => JSON.parse(server.received(`format-${path}`)[0]?.body ?? '')
    const said = `command line published acme/lib dev-<b>&[x](y) in ${repository.path}`
    const escaped = said.replace('<b>&', '&lt;b&gt;&amp;')
    const url = `http://svc.test/${repository.path}/packages/acme/lib`
    expect(bodyTo('slack')).toEqual({ text: `${escaped}\n${url}` })
    expect(bodyTo('matrix')).toEqual({ text: `${said} ${url}`, html: `${escaped} <a href="${url}">Open</a>` })
    expect(bodyTo('teams').attachments[0].content).toMatchObject({
      body: [{ type: 'RichTextBlock', inlines: [{ type: 'TextRun', text: said }] }],
      actions: [{ type: 'Action.OpenUrl', title: 'Open', url }],
    })
  })
})

describe('the secret of a webhook', () => {
  it('is stored sealed, and after a rotation both sign for a day', async () => {
    const repository = await aRepository(t.db)
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url: server.receiver('rotated') })
    const rotation = { id: webhook.id, place: null, by: operator }
    const second = (await rotateSecret(t, rotation)) as string
    await happens(repository.id)
    await sendMessages(t)
    const [both] = server.received('rotated')
    for (const secret of [webhook.secret, second])
      expect(verify(secret, both as never)).toMatchObject({ type: 'version.published' })
    await passRotation(t.db, webhook.id)
    await happens(repository.id)
    await sendMessages(t)
    const [, last] = server.received('rotated')
    expect(verify(second, last as never)).toMatchObject({ type: 'version.published' })
    expect(() => verify(webhook.secret, last as never)).toThrow('No matching signature')
    const stored = await storedAboutWebhooks(t.db)
    for (const secret of [webhook.secret, second]) {
      expect(stored).not.toContain(secret)
      expect(stored).not.toContain(Buffer.from(secret).toString('base64'))
    }
  })
})

describe('a changed URL of a webhook', () => {
  it('keeps the secret at the same origin; another one gets a new secret, also for messages that wait', async () => {
    const repository = await aRepository(t.db)
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url: server.receiver('first') })
    const outbound = openOutbound(t.config)
    const about = { id: webhook.id, place: null, by: operator }
    const moveTo = (url: string) => changeWebhook({ ...outboundOf(), outbound }, about, { url })
    await rotateSecret(t, about)
    expect(await moveTo(server.receiver('path'))).toEqual({ secret: null })
    await happens(repository.id)
    const secret = (await moveTo(server.receiver('host').replace('localhost', '127.0.0.1')))?.secret ?? ''
    await outbound.close()
    await sendMessages(t)
    const [message] = server.received('host')
    expect(verify(secret, message as never)).toMatchObject({ type: 'version.published' })
    expect(message?.headers['webhook-signature']).not.toContain(' ')
    expect(server.received('path')).toEqual([])
    const events = { repositoryId: repository.id, action: ['change-webhook', 'rotate-webhook'] }
    expect(await eventsOf(t.db, events, ['action'])).toEqual(
      ['rotate', 'change', 'change', 'rotate'].map((what) => ({ action: `${what}-webhook` })),
    )
  })
})

describe('the URL of a webhook', () => {
  it.each([
    ['ftp://example.com/', 'must begin with https://'],
    ['https://user:pass@example.com/', 'must not contain credentials'],
    ['http://example.com/', 'OUTBOUND_HTTP'],
    ['https://192.168.0.1/', 'OUTBOUND_PRIVATE_HOSTS'],
    ['https://[::1]/', 'OUTBOUND_PRIVATE_HOSTS'],
    ['https://169.254.169.254/latest', 'OUTBOUND_PRIVATE_HOSTS'],
    ['https://localhost/', 'OUTBOUND_PRIVATE_HOSTS'],
    [`https://example.com/${'a'.repeat(1000)}`, 'at most 1000 characters'],
  ])('%s is refused', async (url, reason) => {
    await expect(aWebhook(t, site, { url }, background)).rejects.toThrow(reason)
  })

  it('is refused at a delivery when its host has another IP by then', async () => {
    const repository = await aRepository(t.db)
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url: server.receiver('rebound') })
    await happens(repository.id)
    const config = { ...t.config, outbound: { ...t.config.outbound, privateHosts: [] } }
    await sendMessages({ config, db: t.db })
    expect(server.received('rebound')).toEqual([])
    expect(await webhook.deliveries()).toMatchObject([
      { state: 'waiting', status: null, failure: expect.stringContaining('has no public IP') },
    ])
  })
})

describe('a receiver that fails', () => {
  it('gets the message again by the table of retries, then the webhook is disabled with a mail', async () => {
    const email = `${aName('ann')}@example.com`
    const admin = await anAccount(t.db, { email })
    await verifyEmail(t.db, admin)
    const repository = await aRepository(t.db)
    await aGroupMember(t.db, admin, repository.group, 'admin')
    const url = server.receiver('failing', (response) => response.writeHead(500).end('<b>broken</b>'))
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url })
    await happens(repository.id)
    for (const [index, seconds] of retrySeconds.entries()) {
      await sendMessages(t)
      const delay = await delayOfRetry(t.db, webhook.id)
      expect(delay).toBeGreaterThanOrEqual(seconds)
      expect(delay).toBeLessThan(seconds * 1.1 + 1)
      expect(server.received('failing')).toHaveLength(index + 1)
      // The first delay of 5 seconds could end while a busy machine comes to the next line.
      await addDelay(t.db, webhook.id, 60)
      await sendMessages(t)
      expect(server.received('failing')).toHaveLength(index + 1)
      await passDelays(t.db, webhook.id)
    }
    await sendMessages(t)
    expect(new Set(server.received('failing').map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    const [failed] = await webhook.deliveries()
    expect(failed).toMatchObject({ state: 'failed', attempts: 10, status: 500 })
    const { history } = (await findDelivery(t.db, webhook.id, failed?.id ?? '')) as DeliveryDetails
    const attempt = {
      status: 500,
      failure: failed?.failure,
      durationMs: expect.any(Number),
      at: expect.any(Date),
    }
    expect(history).toMatchObject(Array.from({ length: 10 }, () => attempt))
    expect(await webhook.find()).toMatchObject({
      enabled: false,
      disabledBecause: 'localhost:0 did not respond as expected'.replace('0', new URL(url).port),
    })
    const about = { repositoryId: repository.id, action: 'disable-webhook' } as const
    expect(await eventsOf(t.db, about, ['id'])).toHaveLength(1)
    await sendMails(t)
    const [mail, ...others] = mails.received.filter(({ recipients }) => recipients.includes(email))
    expect(mail?.text).toContain(`A webhook of ${repository.path} was disabled, because its receiver fails`)
    expect(mail?.text).toContain(`http://svc.test/${repository.path}/-/webhooks/${webhook.id}`)
    expect(others).toEqual([])
    await happens(repository.id)
    expect(await webhook.deliveries()).toHaveLength(1)
  })

  it('shows nothing of a private host but the status', async () => {
    const repository = await aRepository(t.db)
    const url = server.receiver('private', (response) =>
      response.writeHead(200, { 'x-internal': 'header-of-it' }).end('body-of-it'),
    )
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url })
    await happens(repository.id)
    await sendMessages(t)
    const [delivery] = await webhook.deliveries()
    const shown = JSON.stringify(await findDelivery(t.db, webhook.id, delivery?.id ?? ''))
    expect(shown).toContain('version.published')
    expect(shown).not.toContain('of-it')
    expect(await storedAboutWebhooks(t.db)).not.toContain('of-it')
  })

  it('is not followed to another URL', async () => {
    const repository = await aRepository(t.db)
    const target = server.receiver('target')
    const url = server.receiver('redirecting', (response) =>
      response.writeHead(307, { location: target }).end(),
    )
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url })
    await happens(repository.id)
    await sendMessages(t)
    expect(server.received('target')).toEqual([])
    expect(await webhook.deliveries()).toMatchObject([{ state: 'waiting', status: 307 }])
  })

  it('disables the webhook with 410', async () => {
    const repository = await aRepository(t.db)
    const url = server.receiver('gone', (response) => response.writeHead(410).end())
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url })
    await happens(repository.id)
    await happens(repository.id)
    await sendMessages(t)
    expect(server.received('gone')).toHaveLength(1)
    expect(await webhook.find()).toMatchObject({
      enabled: false,
      disabledBecause: expect.stringContaining('410'),
    })
    expect(await webhook.deliveries()).toMatchObject([{ state: 'failed' }, { state: 'failed' }])
    await expect(queuePing(t.db, (await webhook.find()) as Webhook)).rejects.toThrow('enable it first')
  })

  it('holds all messages with Retry-After, in seconds or as a date', async () => {
    for (const [path, value] of [
      ['held', '3600'],
      ['held-until', new Date(Date.now() + 3600_000).toUTCString()],
    ] as const) {
      const repository = await aRepository(t.db)
      const url = server.receiver(path, (response) => response.writeHead(429, { 'retry-after': value }).end())
      const webhook = await aWebhook(t, { repositoryId: repository.id }, { url })
      await happens(repository.id)
      await happens(repository.id)
      await sendMessages(t)
      expect(server.received(path)).toHaveLength(1)
      expect((await dueSeconds(t.db, webhook.id))[0]).toBeGreaterThan(3500)
      await passDelays(t.db, webhook.id)
      server.receiver(path, (response) => response.writeHead(204).end())
      await sendMessages(t)
      expect(server.received(path)).toHaveLength(3)
    }
  })

  it('with 1 GB of response has accepted the message after a few kilobytes', async () => {
    const repository = await aRepository(t.db)
    let sent = 0
    const url = server.receiver('endless', (response) => {
      response.writeHead(200)
      const chunk = Buffer.alloc(64 * 1024, 'x')
      const pour = () => {
        while (sent < 1024 ** 3 && !response.destroyed) {
          sent += chunk.length
          if (!response.write(chunk)) return void response.once('drain', pour)
        }
      }
      pour()
    })
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url })
    await happens(repository.id)
    await sendMessages(t)
    expect(await webhook.deliveries()).toMatchObject([{ state: 'delivered', status: 200 }])
    expect(sent).toBeLessThan(64 * 1024 ** 2)
  })
})

describe('receivers that never answer', () => {
  it('delay neither the messages to other hosts nor other jobs, however many webhooks they have', async () => {
    const silent = [await aRepository(t.db), await aRepository(t.db)] as const
    const lively = await aRepository(t.db)
    const waiting: (() => void)[] = []
    let isSilent = true
    const slow = Array.from({ length: 38 }, async (_, index) => {
      const url = server.receiver(`silent-${index}`, (response) => {
        if (isSilent) waiting.push(() => response.end())
        else response.end()
      })
      // A place has 20 webhooks at most. Half of the receivers did not answer before either.
      const repository = silent[index % 2 === 0 ? 0 : 1]
      const webhook = await aWebhook(t, { repositoryId: repository.id }, { url })
      if (index >= 19) await makeSlow(t.db, webhook.id)
      return webhook
    })
    const hooks = await Promise.all(slow)
    for (const path of ['lively', 'lively-slow']) {
      const url = server.receiver(path).replace('localhost', '127.0.0.1')
      const { id } = await aWebhook(t, { repositoryId: lively.id }, { url })
      if (path === 'lively-slow') await makeSlow(t.db, id)
    }
    let others = 0
    const other = {
      name: 'other',
      async run() {
        others += 1
      },
    }
    for (const { id } of silent) await happens(id)
    await enqueue(t.db, other, {})
    const running = runJobs({ config: t.config, db: t.db }, [...webhookJobs, other], openLog('silent'), {
      pollEveryMilliseconds: 20,
    })
    try {
      while (waiting.length < 6) await sleep(10)
      await happens(lively.id)
      for (const path of ['lively', 'lively-slow']) await server.waitFor(path, 1)
      while (others === 0) await sleep(10)
      // Four of the webhooks that were not slow, and two of the slow ones.
      expect(waiting).toHaveLength(6)
      isSilent = false
      for (const answer of waiting) answer()
      // An answer in time ends the slowness. Those that have waited until now were slow again.
      const areSlow = () => Promise.all(hooks.slice(19).map(({ id }) => isSlow(t.db, id)))
      await expect.poll(areSlow).toContain(false)
    } finally {
      isSilent = false
      for (const answer of waiting) answer()
      await running.stop(10)
    }
  })
})

describe('messages about one package', () => {
  it('arrive in their order, also with two processes', async () => {
    const repository = await aRepository(t.db)
    const url = server.receiver(
      'ordered',
      (response) => void setTimeout(() => response.writeHead(200).end(), 1),
    )
    await aWebhook(t, { repositoryId: repository.id }, { url })
    const start = () =>
      runJobs({ config: t.config, db: t.db }, webhookJobs, openLog('silent'), { pollEveryMilliseconds: 20 })
    const processes = [start(), start()]
    const versions = Array.from({ length: 120 }, (_, index) => `1.${index}.0`)
    for (const version of versions) await happens(repository.id, { version })
    const received = await server.waitFor('ordered', versions.length)
    expect(received.map(({ body }) => JSON.parse(body).data.version)).toEqual(versions)
    await Promise.all(processes.map((one) => one.stop(10)))
  })
})

describe('a delivery', () => {
  it('is sent again with the same id, has its newest 20 attempts, and is removed after 30 days', async () => {
    const repository = await aRepository(t.db)
    const webhook = await aWebhook(t, { repositoryId: repository.id }, { url: server.receiver('again') })
    await queuePing(t.db, (await webhook.find()) as Webhook)
    await sendMessages(t)
    const [delivery] = await webhook.deliveries()
    expect(delivery).toMatchObject({ type: 'ping', state: 'delivered' })
    await queueAgain(t.db, (await webhook.find()) as Webhook, delivery?.id ?? '')
    await sendMessages(t)
    const [first, second] = server.received('again')
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.body).toBe(first?.body)
    let count = 0
    server.receiver('again', (response) => response.writeHead(200 + count++).end())
    for (let sent = 0; sent < 22; sent += 1) {
      await queueAgain(t.db, (await webhook.find()) as Webhook, delivery?.id ?? '')
      await sendMessages(t)
    }
    const { history } = (await findDelivery(t.db, webhook.id, delivery?.id ?? '')) as DeliveryDetails
    expect(history.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, (_, index) => 221 - index))
    expect(await countAttempts(t.db, delivery?.id ?? '')).toBe(20)
    await ageDeliveries(t.db, webhook.id, 29)
    await deleteOldDeliveries(t.db, 1000)
    expect(await webhook.deliveries()).toHaveLength(1)
    await ageDeliveries(t.db, webhook.id, 1)
    await deleteOldDeliveries(t.db, 1000)
    expect(await webhook.deliveries()).toEqual([])
    expect(await countAttempts(t.db, delivery?.id ?? '')).toBe(0)
  })
})
