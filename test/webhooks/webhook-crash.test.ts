import { expect, it } from 'vitest'
import { silentSeconds } from '../../src/archives/tables/store-claims.ts'
import { operator } from '../../src/domain/principal.ts'
import { insertEvent } from '../../src/events/events.ts'
import { aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { ageStoreClaim } from '../support/archive-rows.ts'
import { setTurns } from '../support/job-rows.ts'
import { useServers } from '../support/servers.ts'
import { aWebhook } from '../support/webhook-actors.ts'
import { useReceivers, verify, webhooksHere } from '../support/webhook-receiver.ts'

const t = useApp(webhooksHere)
const servers = useServers(t)
const server = useReceivers()

it('a message that a killed process was sending is sent by another one, with the same id', async () => {
  const repository = await aRepository(t.db)
  // The secret is sealed with a key of the volume, which the servers need, too.
  const environment = { ...webhooksHere, SECRET_KEY: 'a'.repeat(32) }
  const config = { ...t.config, secretKey: environment.SECRET_KEY }
  const url = server.receiver('crash', (response) => {
    if (server.received('crash').length > 1) response.writeHead(204).end()
  })
  const own = { ...t, config, app: t.app, db: t.db, connection: t.connection }
  const webhook = await aWebhook(own, { repositoryId: repository.id }, { url })
  const first = await servers.start(environment)
  await insertEvent(t.db, operator, {
    action: 'publish',
    repositoryId: repository.id,
    packageName: 'acme/lib',
  })
  await server.waitFor('crash', 1)
  await servers.kill(first)
  // The lease of the killed process ends now, not after 30 seconds, and its claim on the archives, not after 90.
  await setTurns(t.db, 0)
  await ageStoreClaim(t.db, silentSeconds + 1)
  const second = await servers.start(environment)
  const [before, after] = await server.waitFor('crash', 2)
  expect(after?.headers['webhook-id']).toBe(before?.headers['webhook-id'])
  expect(verify(webhook.secret, after as never)).toMatchObject({ data: { package: 'acme/lib' } })
  await servers.kill(second)
})
