import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from 'smtp-server'
import { afterAll } from 'vitest'
import { logIdentityEventsJob } from '../../src/accounts/security-notices.ts'
import { enqueue } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { tellPeopleJob } from '../../src/notifications/tell-people.ts'
import { jobs } from '../../src/web/server/jobs.ts'
import type { TestApp } from './app.ts'
import { ageNews } from './news-rows.ts'
import { freePort } from './program.ts'

/** A mail as the server received it. */
export interface ReceivedMail {
  /** The recipients of the envelope. */
  recipients: string[]
  /** The header lines, unfolded, by lower-case name. */
  headers: Map<string, string[]>
  text: string
  html: string
  /** The first URL in the text that has a token. `token` is the value after `token=`. */
  link: string
  token: string
}

/** A real mail server on the loopback interface. */
export interface MailServer {
  /** Settings of svc for it. */
  readonly environment: { SMTP_URL: string; MAIL_FROM: string }
  readonly received: ReceivedMail[]
  /** Refuses the next recipients with this status, such as 450; null accepts them. */
  refuseRecipients: (status: number | null, text?: string) => void
  /** Sets work that runs before a message is accepted. */
  beforeAccepting: (work: () => Promise<void>) => void
  stop: () => Promise<void>
  /** Listens again on the same port. */
  start: () => Promise<void>
}

/** Starts a mail server for a test file. Pass its environment to svc, because it contains the chosen port. */
export async function startMailServer(): Promise<MailServer> {
  const received: ReceivedMail[] = []
  let refusal: { status: number; text: string } | null = null
  let wait = async () => {}
  let server: SMTPServer | null = null
  // It listens again on this port after a stop, so nobody else may get it meanwhile.
  const port = await freePort()

  async function start(): Promise<void> {
    server = new SMTPServer({
      disabledCommands: ['AUTH', 'STARTTLS'],
      closeTimeout: 100,
      onRcptTo: (_address, _session, done) =>
        done(
          refusal === null ? null : Object.assign(new Error(refusal.text), { responseCode: refusal.status }),
        ),
      onData: (stream, session, done) => {
        receive(stream, session).then(
          () => done(),
          (error: Error) => done(error),
        )
      },
    })
    server.on('error', () => {})
    await new Promise<void>((resolve) => server?.listen(port, '127.0.0.1', resolve))
  }

  async function receive(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of stream) chunks.push(chunk as Buffer)
    await wait()
    const recipients = session.envelope.rcptTo.map(({ address }) => address)
    received.push(readMail(Buffer.concat(chunks).toString(), recipients))
  }

  async function stop(): Promise<void> {
    const stopping = server
    server = null
    if (stopping) await new Promise<void>((resolve) => stopping.close(resolve))
  }

  await start()
  return {
    environment: { SMTP_URL: `smtp://127.0.0.1:${port}`, MAIL_FROM: 'svc <svc@example.com>' },
    received,
    refuseRecipients: (status, text = 'user unknown') => {
      refusal = status === null ? null : { status, text }
    },
    beforeAccepting: (work) => {
      wait = work
    },
    start,
    stop,
  }
}

/** Starts a mail server that stops after the tests of the file. */
export async function useMailServer(): Promise<MailServer> {
  const server = await startMailServer()
  afterAll(server.stop)
  return server
}

const mailJobs = [
  'log-identity-events',
  'request-password-reset',
  'request-sign-up',
  'send-mail',
  'tell-people',
  'send-bulk-mail',
]

/** Runs the jobs that cause and send mails, until no mail is left. News count as old enough to be told. */
export async function sendMails({ app, config, db }: TestApp): Promise<void> {
  await ageNews(db)
  await enqueue(db, tellPeopleJob, {})
  await enqueue(db, logIdentityEventsJob, {})
  const due = jobs.filter(({ name }) => mailJobs.includes(name))
  await runDueJobs({ config, db }, due, app.log)
}

function readMail(raw: string, recipients: string[]): ReceivedMail {
  const { headers, body } = splitPart(raw)
  const [, boundary = ''] = /boundary="([^"]+)"/.exec(headers.get('content-type')?.[0] ?? '') ?? []
  const parts = body
    .split(`--${boundary}`)
    .slice(1, -1)
    .map((part) => decodePart(part.replace(/^\r\n/, '')))
  const [text = '', html = ''] = parts
  const [link = '', token = ''] = /https?:\/\/\S*[?/](?:token=)?([\w-]{43})\b/.exec(text) ?? []
  return { recipients, headers, text, html, link, token }
}

function splitPart(raw: string): { headers: Map<string, string[]>; body: string } {
  const end = raw.indexOf('\r\n\r\n')
  const headers = new Map<string, string[]>()
  const lines = raw
    .slice(0, end)
    .replace(/\r\n[ \t]+/g, ' ')
    .split('\r\n')
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    headers.set(name, [...(headers.get(name) ?? []), line.slice(colon + 1).trim()])
  }
  return { headers, body: raw.slice(end + 4) }
}

function decodePart(raw: string): string {
  const { headers, body } = splitPart(raw)
  const encoding = headers.get('content-transfer-encoding')?.[0]
  if (encoding === 'base64') return Buffer.from(body, 'base64').toString()
  if (encoding !== 'quoted-printable') return body
  const bytes = body
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}
