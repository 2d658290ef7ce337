import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { transaction } from '../../src/database/database.ts'
import type { Job } from '../../src/jobs/job.ts'
import { countJobs } from '../../src/jobs/job-rows.ts'
import { runDueJobs, runJobs } from '../../src/jobs/run-jobs.ts'
import type { Mail } from '../../src/mail/mail.ts'
import { type MailKind, queueMail, sendMailJobs } from '../../src/mail/mail-queue.ts'
import { openLog } from '../../src/web/server/log.ts'
import { useDatabase } from '../support/database.ts'
import { listStoredJobs, makeJobsDue } from '../support/job-rows.ts'
import { useMailServer } from '../support/mail-server.ts'
import { pixel } from '../support/oauth-actors.ts'
import { countRows, dropRows } from '../support/rows.ts'

const server = await useMailServer()
const environment = { BASE_URL: 'https://svc.example.com', ...server.environment }
const config = readConfig(environment)
const database = useDatabase()

const greeting: MailKind<Partial<Mail>> = {
  name: 'greeting',
  compose: async (_context, changes) => ({
    to: { address: 'ann@example.com', name: 'Ann' },
    subject: 'Grüße',
    paragraphs: ['First.', '<b>Second</b> & last.'],
    facts: [['Browser', 'Firefox on Linux']],
    link: { label: 'Open it', url: 'https://svc.example.com/x?a=1&b=2' },
    advice: ['Or ignore this mail.'],
    ...changes,
  }),
}
const nothing: MailKind = { name: 'nothing', compose: async () => null }
const [job] = sendMailJobs([greeting, nothing]) as [Job, Job]

const lines: string[] = []
const stream = new PassThrough().on('data', (chunk: Buffer) => lines.push(chunk.toString()))
const log = openLog('info', stream)

const queue = (changes: Partial<Mail> = {}) => queueMail(database.db, config, greeting, changes)
const send = () => runDueJobs({ config, db: database.db }, [job], log)
const makeDue = () => makeJobsDue(database.db)
const counted = async () => {
  const [found] = (await countJobs(database.db)).filter(({ name }) => name === 'send-mail')
  return found && { queued: found.queued, active: found.active, failed: found.failed }
}

beforeEach(async () => {
  await dropRows(database.db, 'job')
  server.received.length = 0
  server.refuseRecipients(null)
  server.beforeAccepting(async () => {})
})

describe('a queued mail', () => {
  it('arrives as text and HTML, with an escaped text and no remote content', async () => {
    await queue()
    await send()
    const [mail] = server.received
    expect(mail?.recipients).toEqual(['ann@example.com'])
    expect(mail?.headers.get('to')).toEqual(['Ann <ann@example.com>'])
    expect(mail?.headers.get('from')).toEqual(['svc <svc@example.com>'])
    expect(mail?.headers.get('subject')).toEqual(['=?UTF-8?Q?Gr=C3=BC=C3=9Fe?='])
    expect(mail?.headers.get('auto-submitted')).toEqual(['auto-generated'])
    expect(mail?.text.replaceAll('\r\n', '\n').trim()).toBe(
      'First.\n\n<b>Second</b> & last.\n\n  Browser: Firefox on Linux\n\nOpen it:\nhttps://svc.example.com/x?a=1&b=2\n\nOr ignore this mail.\n\n-- \nsvc\nhttps://svc.example.com',
    )
    expect(mail?.html).toContain('<p>&lt;b&gt;Second&lt;/b&gt; &amp; last.</p>')
    expect(mail?.html).toMatch(/<a href="https:\/\/svc\.example\.com\/x\?a=1&amp;b=2"[^>]*>Open it<\/a>/)
    expect(mail?.html).not.toMatch(/<(?:img|link|script)\b|url\(|@import/)
    expect(await counted()).toEqual({ queued: 0, active: 0, failed: 0 })
  })

  it('has the name, logo and contact of the site, and replies go to the contact', async () => {
    const logoFile = join(mkdtempSync(join(tmpdir(), 'svc-logo-')), 'logo.png')
    writeFileSync(logoFile, pixel)
    const site = { SITE_NAME: 'Acme Packages', SITE_LOGO: logoFile, SITE_CONTACT: 'help@acme.example' }
    await queue()
    await runDueJobs({ config: readConfig({ ...environment, ...site }), db: database.db }, [job], log)
    const [mail] = server.received
    expect(mail?.headers.get('reply-to')).toEqual(['help@acme.example'])
    expect(mail?.text.replaceAll('\r\n', '\n')).toContain(
      '-- \nAcme Packages\nhttps://svc.example.com\nQuestions? Write to help@acme.example\n',
    )
    expect(mail?.html).toContain('Acme Packages')
    expect(mail?.html).toContain('cid:logo')
    expect(mail?.html).toContain(pixel.toString('base64').slice(0, 60))
  })

  it('is not sent when the transaction rolls back', async () => {
    const failing = transaction(database.db, async (tx) => {
      await queueMail(tx, config, greeting, {})
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    await send()
    expect(server.received).toEqual([])
  })

  it('is not queued without SMTP_URL, and dropped when SMTP_URL is gone', async () => {
    const silent = readConfig({})
    expect(await queueMail(database.db, silent, greeting, {})).toBe(false)
    expect(await countRows(database.db, 'job')).toBe(0)
    expect(await queue()).toBe(true)
    await runDueJobs({ config: silent, db: database.db }, [job], log)
    expect(await counted()).toEqual({ queued: 0, active: 0, failed: 0 })
    expect(server.received).toEqual([])
  })

  it('is not sent when its reason no longer exists', async () => {
    await queueMail(database.db, config, nothing, {})
    await send()
    expect([server.received, await counted()]).toEqual([[], { queued: 0, active: 0, failed: 0 }])
  })

  it('waits for a mail server that is down', async () => {
    await server.stop()
    await queue()
    await send()
    expect(await counted()).toEqual({ queued: 1, active: 0, failed: 0 })
    await server.start()
    await makeDue()
    await send()
    expect(server.received).toHaveLength(1)
    expect(await counted()).toEqual({ queued: 0, active: 0, failed: 0 })
  })

  it('is retried after a temporary error (4xx)', async () => {
    server.refuseRecipients(450)
    await queue()
    await send()
    expect(await counted()).toEqual({ queued: 1, active: 0, failed: 0 })
    server.refuseRecipients(null)
    await makeDue()
    await send()
    expect(server.received).toHaveLength(1)
  })

  it('fails at once after a permanent error (5xx), and the log contains no email address', async () => {
    server.refuseRecipients(550, '5.1.1 <ann@example.com>: User unknown')
    await queue()
    await send()
    expect(await counted()).toEqual({ queued: 0, active: 0, failed: 1 })
    const [stored, ...others] = await listStoredJobs(database.db)
    expect([stored?.attempts, others]).toEqual([1, []])
    expect(stored?.lastError).toContain('EENVELOPE RCPT TO): 550')
    expect(stored?.lastError).toContain('<…>: User unknown')
    expect(lines.join('')).toContain('User unknown')
    expect(lines.join('')).not.toContain('ann@')
  })

  it.each([
    [554, '5.7.1 <ann@example.com>: Relay access denied'],
    [550, '5.7.1 Client host rejected'],
    [550, 'relay not permitted'],
    [553, '5.1.8 Domain of sender address does not exist'],
    [554, 'no'],
  ])('is retried when the mail server refuses svc, not the recipient: %s %s', async (status, text) => {
    server.refuseRecipients(status, text)
    await queue()
    await send()
    server.refuseRecipients(null)
    expect(await counted()).toEqual({ queued: 1, active: 0, failed: 0 })
    await makeDue()
    await send()
    expect(server.received).toHaveLength(1)
  })

  it.each([
    [550, '5.1.1 <ann@example.com>: Recipient address rejected: User unknown'],
    [552, '5.2.2 Mailbox full'],
  ])('fails at once when the mail server refuses the recipient: %s %s', async (status, text) => {
    server.refuseRecipients(status, text)
    await queue()
    await send()
    server.refuseRecipients(null)
    expect(await counted()).toEqual({ queued: 0, active: 0, failed: 1 })
  })

  it('waits for a slow mail server, and is given back to the queue when the process stops', async () => {
    let letGo = () => {}
    let isWaiting = false
    server.beforeAccepting(() => {
      isWaiting = true
      return new Promise((resolve) => {
        letGo = resolve
      })
    })
    await queue()
    const running = runJobs({ config, db: database.db }, [job], log, { pollEveryMilliseconds: 20 })
    await vi.waitFor(() => expect(isWaiting).toBe(true), 60_000)
    expect(await counted()).toEqual({ queued: 0, active: 1, failed: 0 })
    await running.stop(10)
    expect(await counted()).toEqual({ queued: 1, active: 0, failed: 0 })
    letGo()
  })

  it.each([
    ['Ann\r\nBcc: eve@example.com', 'ann@example.com'],
    ['eve@example.com, Ann', 'ann@example.com'],
    ['"Ann" <eve@example.com>', 'ann@example.com'],
  ])('has one recipient, whatever the name %j', async (name, address) => {
    await queue({ to: { name, address }, subject: 'Hello\r\nBcc: eve@example.com' })
    await send()
    const [mail] = server.received
    expect(mail?.recipients).toEqual([address])
    expect(mail?.headers.has('bcc')).toBe(false)
    expect(mail?.headers.get('to')?.[0]).toMatch(/<ann@example\.com>$/)
  })

  it.each(['ann@example.com,eve@example.com', 'ann@example.com>,<eve@example.com', '<eve@example.com>'])(
    'reaches nobody else with the address %s',
    async (address) => {
      await queue({ to: { name: 'Ann', address } })
      await send()
      const recipients = server.received.flatMap((mail) => mail.recipients)
      expect(recipients).toEqual([])
      expect(await counted()).toEqual({ queued: 0, active: 0, failed: 1 })
    },
  )

  it('keeps values on one line', async () => {
    await queue({ facts: [['Browser', 'x\r\n\r\nOpen it:\nhttps://evil.example']] })
    await send()
    expect(server.received[0]?.text).toContain('Browser: x Open it: https://evil.example')
  })
})
