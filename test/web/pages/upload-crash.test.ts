import { readdir, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { deleteExpiredUploads } from '../../../src/packages/tables/browser-uploads.ts'
import { aMember, anAccount, aPersonalToken, aRepository, password } from '../../support/actors.ts'
import { useDatabase } from '../../support/database.ts'
import { countEvents } from '../../support/event-rows.ts'
import { ageUnusedArchives } from '../../support/garbage.ts'
import { endConnections, waitingFor, whileLocked } from '../../support/locks.ts'
import { runSvc, type Server } from '../../support/program.ts'
import { aPackageZip, basic } from '../../support/registry-actors.ts'
import { useServers } from '../../support/servers.ts'
import { expireUploads } from '../../support/upload-rows.ts'

describe('an upload in the browser whose server is killed (kill -9)', () => {
  const database = useDatabase()
  // Each test kills the server that the one before has started.
  const servers = useServers(database, afterAll)
  const { environment, running, kill } = servers

  /** A developer of a repository, signed in, who has uploaded a zip and sees its preview. */
  async function anUpload(server: Server) {
    const repository = await aRepository(database.db)
    const account = await anAccount(database.db)
    await aMember(database.db, account, repository, 'developer')
    const authorization = basic(await aPersonalToken(database.db, account))
    const form = await fetch(`${server.url}/login`)
    const fields = new URLSearchParams({
      csrf_token: csrfTokenOf(await form.text()),
      username: account.username,
      password,
    })
    const signedIn = await fetch(`${server.url}/login`, {
      method: 'POST',
      headers: { cookie: cookieOf(form) },
      body: fields,
      redirect: 'manual',
    })
    expect(signedIn.status).toBe(303)
    const cookie = cookieOf(signedIn)
    const page = `/${repository.path}/-/upload`
    const csrf = csrfTokenOf(await (await fetch(server.url + page, { headers: { cookie } })).text())
    const zip = aPackageZip('acme/lib', { description: repository.path })
    const upload = new FormData()
    upload.append('csrf_token', csrf)
    upload.append('package', new Blob([new Uint8Array(zip)]), 'lib.zip')
    const sent = await fetch(server.url + page, {
      method: 'POST',
      headers: { cookie },
      body: upload,
      redirect: 'manual',
    })
    expect(sent.status).toBe(303)
    const preview = String(sent.headers.get('location'))
    return {
      repository,
      look: async (one: Server) => {
        const response = await fetch(`${one.url}${preview}?version=1.0.0`, { headers: { cookie } })
        return { status: response.status, body: await response.text() }
      },
      publish: async (one: Server) => {
        const body = new URLSearchParams({ csrf_token: csrf, act: 'publish', version: '1.0.0' })
        const url = one.url + preview
        return (await fetch(url, { method: 'POST', headers: { cookie }, body, redirect: 'manual' })).status
      },
      /** Sends the beginning of another upload, and never its end. */
      sendPart: async (one: Server) => {
        const field = `--b\r\ncontent-disposition: form-data; name="csrf_token"\r\n\r\n${csrf}\r\n`
        const file = '--b\r\ncontent-disposition: form-data; name="package"; filename="a.zip"\r\n\r\nPK'
        const body = new ReadableStream({
          start: (controller) => controller.enqueue(new TextEncoder().encode(field + file)),
        })
        const headers = { cookie, 'content-type': 'multipart/form-data; boundary=b' }
        const init = { method: 'POST', headers, body, duplex: 'half' } as RequestInit
        return fetch(one.url + page, init).then(
          ({ status }) => status,
          () => 'none',
        )
      },
      pull: async (one: Server) => {
        const url = `${one.url}/${repository.path}/-/packages/p2/acme/lib.json`
        const response = await fetch(url, { headers: { authorization } })
        return { status: response.status, body: await response.text() }
      },
    }
  }

  /** Kills the server while its publication waits for the table, so that nothing after it has happened. */
  async function killWhilePublishing(
    server: Server,
    table: string,
    { publish }: { publish: (server: Server) => Promise<number> },
  ): Promise<void> {
    await whileLocked(
      database.db,
      table,
      async () => {
        const response = publish(server).catch(() => 'none')
        const waiting = () => waitingFor(database.db, table, publication)
        await expect.poll(waiting).not.toEqual([])
        await kill(server)
        expect(await response).toBe('none')
        // PostgreSQL would still run the statement that waits.
        await endConnections(database.db, await waiting())
      },
      'exclusive',
    )
  }

  it('has published nothing, and continues after the preview with another process', async () => {
    const first = await running()
    const upload = await anUpload(first)
    expect((await upload.look(first)).body).toContain('Publish acme/lib 1.0.0')
    await kill(first)
    const next = await running()
    expect((await upload.pull(next)).status).toBe(404)
    expect((await upload.look(next)).body).toContain('Publish acme/lib 1.0.0')
    expect(await upload.publish(next)).toBe(303)
    expect((await upload.pull(next)).body).toContain('"version":"1.0.0"')
    expect((await upload.look(next)).status).toBe(404)
  })

  it('has published nothing until the commit, and keeps the upload', async () => {
    const first = await running()
    const upload = await anUpload(first)
    await killWhilePublishing(first, 'event', upload)
    const next = await running()
    expect((await upload.pull(next)).status).toBe(404)
    expect((await upload.look(next)).body).toContain('Publish acme/lib 1.0.0')
    expect(await upload.publish(next)).toBe(303)
    expect((await upload.pull(next)).body).toContain('"version":"1.0.0"')
  })

  it('has published everything after the commit, and publishing again ends the upload', async () => {
    const first = await running()
    const upload = await anUpload(first)
    await killWhilePublishing(first, 'browser_upload', upload)
    const next = await running()
    expect((await upload.pull(next)).body).toContain('"version":"1.0.0"')
    expect(await upload.publish(next)).toBe(303)
    expect((await upload.look(next)).status).toBe(404)
    const published = { repositoryId: upload.repository.id, action: 'publish' }
    expect(await countEvents(database.db, published)).toBe(1)
  })

  it('leaves files that a collection removes after a day', async () => {
    const first = await running()
    const upload = await anUpload(first)
    const another = upload.sendPart(first)
    const files = (folder: string) =>
      readdir(join(servers.dataDir, folder), { recursive: true, withFileTypes: true })
    await expect.poll(() => files('tmp')).not.toEqual([])
    await kill(first)
    expect(await another).toBe('none')
    const long = new Date(Date.now() - 30 * 3_600_000)
    for (const { parentPath, name } of [...(await files('tmp')), ...(await files('archives'))]) {
      await utimes(join(parentPath, name), long, long)
    }
    await expireUploads(database.db, { repositoryId: upload.repository.id })
    expect(await deleteExpiredUploads(database.db, 100)).toBe(1)
    await ageUnusedArchives(database.db)
    const { stdout } = await runSvc(['collect-garbage', '--force', '--json'], environment())
    const collected = JSON.parse(stdout) as { archives: number; temporary_files: number }
    expect(collected.archives).toBe(1)
    expect(collected.temporary_files).toBeGreaterThan(0)
    expect(await readdir(join(servers.dataDir, 'tmp'))).toEqual([])
  })
})

/** The statement of a publication that waits for the table. Background jobs may wait for it too. */
const publication = /^(select insert_events|delete from browser_upload where id)/

function csrfTokenOf(body: string): string {
  return /name="csrf_token" value="([^"]+)"/.exec(body)?.[1] ?? ''
}

function cookieOf(response: Response): string {
  return response.headers
    .getSetCookie()
    .map((cookie) => cookie.split(';', 1)[0])
    .join('; ')
}
