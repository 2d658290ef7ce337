import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { queuePing } from '../../src/webhooks/deliveries.ts'
import { messageTypes } from '../../src/webhooks/message-types.ts'
import { retrySeconds } from '../../src/webhooks/send-webhook.ts'
import type { Webhook } from '../../src/webhooks/webhooks.ts'
import { useApp } from '../support/app.ts'
import { freePort } from '../support/program.ts'
import { aWebhook, sendMessages, site } from '../support/webhook-actors.ts'
import { webhooksHere } from '../support/webhook-receiver.ts'

const t = useApp(webhooksHere)
const guide = readFileSync('docs/webhooks.md', 'utf8')
const folder = mkdtempSync(join(tmpdir(), 'svc-receivers-'))
const running: ChildProcess[] = []
afterAll(() => {
  for (const child of running) child.kill('SIGKILL')
  rmSync(folder, { recursive: true })
})

/** Returns the code of the guide in a language. */
const codeIn = (language: string) => guide.split(`\`\`\`${language}\n`)[1]?.split('\n```')[0] ?? ''

/** Starts the receiver of the guide in a language. Returns what it prints. */
function start(command: string, words: string[], environment: Record<string, string>): () => string {
  const child = spawn(command, words, { cwd: folder, env: { ...process.env, ...environment } })
  running.push(child)
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text: Buffer) => {
      printed += text.toString()
    })
  return () => printed
}

describe('the receiver of the guide', () => {
  it.each(['js', 'php'])('in %s accepts a message, and refuses one that was changed', async (language) => {
    const port = String(await freePort())
    const url = `http://localhost:${port}/`
    const webhook = await aWebhook(t, site, { url })
    const environment = { WEBHOOK_SECRET: webhook.secret, PORT: port }
    // The package is found from here.
    const code = codeIn(language).replace(
      "'standardwebhooks'",
      `'${resolve('node_modules/standardwebhooks/dist/index.js')}'`,
    )
    const file = language === 'js' ? 'receiver.mjs' : 'receiver.php'
    writeFileSync(join(folder, file), code)
    const printed =
      language === 'js'
        ? start(process.execPath, [file], environment)
        : start('php', ['-S', `localhost:${port}`, file], environment)
    const post = () => fetch(url, { method: 'POST', body: '{"type":"ping"}' }).catch(() => null)
    let refused = await post()
    for (; refused === null; refused = await post()) await sleep(20)
    expect(refused.status).toBe(401)
    await queuePing(t.db, (await webhook.find()) as Webhook)
    await sendMessages(t)
    expect(await webhook.deliveries()).toMatchObject([{ state: 'delivered', status: 204 }])
    while (!printed().includes('ping')) await sleep(10)
  })
})

describe('the guide', () => {
  it('has all types of messages, and the table of retries', () => {
    const types = [...guide.matchAll(/^\| `([a-z.]+)` \|/gm)].map(([, type]) => type)
    expect(types).toEqual(Object.keys(messageTypes))
    const [row = ''] = /^\| after \|.*$/m.exec(guide) ?? []
    const units = { s: 1, min: 60, h: 3600 }
    const seconds = [...row.matchAll(/(\d+) (s|min|h)\b/g)].map(
      ([, count, unit]) => Number(count) * units[unit as keyof typeof units],
    )
    expect(seconds).toEqual([...retrySeconds])
  })
})
