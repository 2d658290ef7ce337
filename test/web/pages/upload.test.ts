import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Role } from '../../../src/domain/permissions.ts'
import { deleteExpiredUploads } from '../../../src/packages/tables/browser-uploads.ts'
import { aMember, anAccount, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { aMirroredPackage } from '../../support/mirrored-rows.ts'
import { aPackageZip, aPublisher } from '../../support/registry-actors.ts'
import { countRows } from '../../support/rows.ts'
import { setReleaseRule } from '../../support/stage-rows.ts'
import { discardUploads, expireUploads, setUploads } from '../../support/upload-rows.ts'
import { anUpstream } from '../../support/upstream-rows.ts'
import { aZip } from '../../support/zip.ts'

const t = useApp({ MAX_ARCHIVE_BYTES: '1048576' })

/** A signed-in member of a repository. */
async function aMemberOf({
  role = 'developer' as Role,
  repository = undefined as { id: string; path: string } | undefined,
} = {}) {
  const publisher = repository ? null : await aPublisher(t)
  const own = repository ?? (publisher?.repository as { id: string; path: string })
  const account = await anAccount(t.db)
  await aMember(t.db, account, own, role)
  const cookie = await signIn(t.app, account)
  const url = `/${own.path}/-/upload`
  const open = (path = url) => t.app.inject({ url: path, headers: { cookie } })
  const csrf = csrfTokenIn(await open('/settings/account'))
  /** Sends the form of the upload page, with the fields in this order. */
  async function upload(
    zip: Buffer | null,
    { token = csrf as string | null, fileName = 'lib.zip', isTokenLast = false } = {},
  ) {
    const form = new FormData()
    if (token !== null && !isTokenLast) form.append('csrf_token', token)
    form.append('package', new Blob([new Uint8Array(zip ?? Buffer.alloc(0))]), zip ? fileName : '')
    if (token !== null && isTokenLast) form.append('csrf_token', token)
    const body = new Response(form)
    const headers = { cookie, 'content-type': String(body.headers.get('content-type')) }
    return t.app.inject({ method: 'POST', url, headers, payload: Buffer.from(await body.arrayBuffer()) })
  }
  const decide = (path: string, fields: Record<string, string>, token = csrf) =>
    post(t.app, path, cookie, { csrf_token: token, ...fields })
  return { ...publisher, repository: own, account, url, open, upload, decide, cookie }
}

const temporaryFiles = async () => (await readdir(join(t.config.dataDir, 'tmp'))).length

describe('/<group>/<name>/-/upload', () => {
  it('shows what would be published, for the version that is chosen, and then publishes it', async () => {
    const { upload, open, decide, repository, ask, url } = await aMemberOf()
    const zip = aPackageZip('acme/lib', {
      description: 'Counts things',
      require: { 'acme/other': '^1' },
      extra: {},
    })
    const sent = await upload(zip)
    expect(sent.statusCode).toBe(303)
    const path = String(sent.headers.location)
    const preview = await open(path)
    expect(preview.body).toContain('not chosen yet')
    expect(preview.body).not.toContain('value="publish"')
    expect((await open(url)).body).toContain(path)
    const chosen = await open(`${path}?version=1.2.0`)
    expect(chosen.body).toContain('Publish acme/lib 1.2.0')
    expect(chosen.body).toContain('Counts things')
    expect(chosen.body).toContain('acme/other')
    expect((await ask?.('p2/acme/lib.json'))?.statusCode).toBe(404)

    const done = await decide(path, { act: 'publish', version: '1.2.0' })
    expect(done.headers.location).toBe(`/${repository.path}/packages/acme/lib?version=1.2.0`)
    expect((await ask?.('p2/acme/lib.json'))?.body).toContain('"1.2.0"')
    expect((await open(path)).statusCode).toBe(404)
    expect((await decide(path, { act: 'publish', version: '1.2.0' })).statusCode).toBe(404)
    expect(await temporaryFiles()).toBe(0)
    const events = await eventsOf(t.db, { repositoryId: repository.id }, ['action', 'actorId', 'tokenId'])
    expect(events).toEqual([{ action: 'publish', actorId: expect.any(String), tokenId: null }])
  })

  it('says before the decision that the version of a reviewed repository is staged', async () => {
    const { upload, open, repository } = await aMemberOf()
    await setReleaseRule(t, repository)
    const sent = await upload(aPackageZip('acme/lib', { version: '1.0.0' }))
    const { body } = await open(String(sent.headers.location))
    expect(body).toContain('Stage acme/lib 1.0.0 for review')
    expect(body).not.toContain('Publish acme/lib')
  })

  it('suggests the version of composer.json or of the file name, and shows warnings', async () => {
    const { upload, open } = await aMemberOf()
    const own = await upload(aPackageZip('acme/lib', { version: '3.1.4' }))
    const page = await open(String(own.headers.location))
    expect(page.body).toContain('Publish acme/lib 3.1.4')
    expect(page.body).toContain('version can be left out')
    const named = await upload(aPackageZip('acme/lib'), { fileName: 'acme-lib-2.0.0-beta.1.zip' })
    expect((await open(String(named.headers.location))).body).toContain('Publish acme/lib 2.0.0-beta.1')
  })

  it.each([
    ['no zip', Buffer.from('hello'), 400, 'not a zip file'],
    ['no file', null, 400, 'Choose a zip file'],
    ['no composer.json', aZip({ 'a.txt': 'a' }), 400, 'composer.json is missing'],
    ['a large file', Buffer.alloc(1024 * 1024 + 1), 413, 'too large'],
  ])('refuses %s with the reason, and keeps nothing', async (_what, zip, status, reason) => {
    const { upload, account } = await aMemberOf()
    const refused = await upload(zip)
    expect(refused.statusCode).toBe(status)
    expect(refused.body).toContain(reason)
    expect(await countRows(t.db, 'browser_upload', { accountId: account.id })).toBe(0)
    expect(await temporaryFiles()).toBe(0)
  })

  it('explains on the preview that a vendor of an upstream needs a claim', async () => {
    const { upload, open, repository } = await aMemberOf()
    const upstreamId = await anUpstream(t.db, repository)
    await aMirroredPackage(t.db, repository, 'acme/other', { upstreamId })
    const path = String((await upload(aPackageZip('acme/lib'))).headers.location)
    const { body } = await open(`${path}?version=1.0.0`)
    expect(body).toContain('An administrator must claim the vendor first')
    expect(body).not.toContain('value="publish"')
  })

  it('explains on the preview why a version is refused, by the rules of the upload endpoint', async () => {
    const { upload, open, decide, push } = await aMemberOf()
    const path = String((await upload(aPackageZip('acme/lib', { version: '1.0.0' }))).headers.location)
    for (const [version, reason] of [
      ['not a version', 'a version must be SemVer 2.0.0'],
      ['2.0.0', 'must be &quot;2.0.0&quot; or absent'],
    ]) {
      const page = await open(`${path}?${new URLSearchParams({ version: String(version) })}`)
      expect(page.body).toContain(reason)
      expect(page.body).not.toContain('alidate [')
      expect(page.body).not.toContain('value="publish"')
      expect(page.body).not.toContain(`svc ${version}`)
      expect((await decide(path, { act: 'publish', version: String(version) })).statusCode).toBe(400)
    }
    await push?.('1.0.0')
    expect((await open(path)).body).toContain('exists with other content')
    expect((await decide(path, { act: 'publish', version: '1.0.0' })).statusCode).toBe(409)
    const nameless = await upload(aZip({ 'composer.json': '{"description":"x"}' }))
    const page = await open(`${nameless.headers.location}?version=1.0.0`)
    expect(page.body).toContain('Invalid package name')
    const same = await upload(aPackageZip('acme/lib'))
    const repeat = await open(`${same.headers.location}?version=1.0.0`)
    expect(repeat.body).toContain('published already, with the same content')
    expect(
      (await decide(String(same.headers.location), { act: 'publish', version: '1.0.0' })).statusCode,
    ).toBe(303)
  })

  it('belongs to its account and repository, and can be discarded', async () => {
    const owner = await aMemberOf()
    const path = String((await owner.upload(aPackageZip('acme/lib'))).headers.location)
    const other = await aMemberOf({ repository: owner.repository })
    const elsewhere = await aMemberOf()
    await aMember(t.db, owner.account, elsewhere.repository, 'developer')
    expect((await other.open(path)).statusCode).toBe(404)
    expect((await other.decide(path, { act: 'publish', version: '1.0.0' })).statusCode).toBe(404)
    const id = path.split('/').at(-1)
    expect((await owner.open(`${elsewhere.url}/${id}`)).statusCode).toBe(404)
    expect((await owner.open(`${owner.url}/not-an-id`)).statusCode).toBe(404)
    expect((await owner.decide(path, { act: 'burn', version: '1.0.0' })).statusCode).toBe(400)
    expect((await owner.decide(path, { act: 'discard' }, 'wrong')).statusCode).toBe(403)
    expect((await owner.decide(path, { act: 'discard' })).statusCode).toBe(303)
    expect((await owner.open(path)).statusCode).toBe(404)
  })

  it('is for those who may publish, at both steps, and only from a page of this server', async () => {
    const guest = await aMemberOf({ role: 'guest' })
    expect((await guest.open()).statusCode).toBe(403)
    expect((await guest.upload(aPackageZip('acme/lib'))).statusCode).toBe(403)
    expect((await t.app.inject(guest.url)).headers.location).toMatch(/^\/login/)
    const stranger = await aMemberOf()
    expect((await stranger.open(guest.url)).statusCode).toBe(404)

    const member = await aMemberOf()
    for (const options of [{ token: null }, { token: 'wrong' }, { isTokenLast: true }]) {
      expect((await member.upload(aPackageZip('acme/lib'), options)).statusCode).toBe(403)
    }
    expect(await temporaryFiles()).toBe(0)
    const path = String((await member.upload(aPackageZip('acme/lib'))).headers.location)
    await aMember(t.db, member.account, member.repository, 'guest')
    expect((await member.decide(path, { act: 'publish', version: '1.0.0' })).statusCode).toBe(403)
    expect((await member.ask?.('p2/acme/lib.json'))?.statusCode).toBe(404)
  })

  it('is bounded for each account in number and bytes, and expires', async () => {
    const { upload, account, open } = await aMemberOf()
    const sent = await Promise.all(Array.from({ length: 8 }, () => upload(aPackageZip('acme/lib'))))
    const statuses = sent.map(({ statusCode }) => statusCode).sort((a, b) => a - b)
    expect(statuses).toEqual([303, 303, 303, 303, 303, 429, 429, 429])
    const full = sent.find(({ statusCode }) => statusCode === 429)
    expect(full?.body).toContain('You have 5 uploads that are not published')
    expect(full?.body).toContain('Publish or discard one')
    await discardUploads(t.db, { accountId: account.id })
    expect((await upload(aPackageZip('acme/lib'))).statusCode).toBe(303)
    // There is room again when the second upload expires.
    await setUploads(t.db, account, 2_500_000, new Date('2030-01-01T10:00Z'))
    const fullOfBytes = await upload(aPackageZip('acme/lib'))
    expect(fullOfBytes.statusCode).toBe(429)
    expect(fullOfBytes.body).toContain('at most 10 MB within 12 hours, and discarded ones count too')
    expect(fullOfBytes.body).toContain('wait until 1 Jan 2030, 10:02 UTC')
    await expireUploads(t.db, { accountId: account.id })
    const last = await upload(aPackageZip('acme/lib'))
    expect(last.statusCode).toBe(303)
    expect(await deleteExpiredUploads(t.db, 100)).toBe(6)
    expect((await open(String(last.headers.location))).statusCode).toBe(200)
  })
})
