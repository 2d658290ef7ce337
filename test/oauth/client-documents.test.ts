import { createHash } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { deleteUnusedApplications, findApplicationByClientId } from '../../src/oauth/applications.ts'
import {
  describeClientDocument,
  type ListedDocument,
  listClientDocuments,
  registerUnreviewed,
} from '../../src/oauth/client-documents.ts'
import { kinds } from '../../src/outbound/kinds.ts'
import { anAccount, cookiesOf, csrfTokenIn, password, post, signIn } from '../support/actors.ts'
import { anAdministrator } from '../support/admin-actors.ts'
import { boundsWithin, patientBounds, useAnotherProcess, useApp } from '../support/app.ts'
import { ageApplications } from '../support/application-rows.ts'
import { authorizeLink, open, responseOf, submitConsent } from '../support/browse.ts'
import {
  documentOf,
  documentRedirect,
  documentsHere,
  sendDocument,
  useDocumentServer,
} from '../support/document-server.ts'
import { eventsOf } from '../support/event-rows.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { countRows } from '../support/rows.ts'
import { askAsPublic, works } from '../support/token-client.ts'

const verifier = 'a-verifier-of-a-document-0123456789-abcdefghij'
const pkce = {
  code_challenge: createHash('sha256').update(verifier).digest('base64url'),
  code_challenge_method: 'S256',
}
const server = useDocumentServer()
// Each is an origin of its own, which svc asks for 30 documents in a minute.
const fetchServer = useDocumentServer()
const link = (clientId: string, parameters: Record<string, string> = {}) =>
  authorizeLink({ clientId }, { ...pkce, ...parameters })

describe('with CLIENT_METADATA_DOCUMENTS=off', () => {
  const t = useApp(documentsHere)

  it('a document is an unknown client, and is not read (OPENID 275)', async () => {
    const clientId = server.publish('off')
    const cookie = await signIn(t.app, await anAccount(t.db))
    for (const visitor of ['', cookie]) {
      const response = await open(t, link(clientId), visitor)
      expect(response.statusCode).toBe(400)
      expect(response.body).toContain('client_id is not known here.')
    }
    expect(server.requests('off')).toBe(0)
  })

  it('the metadata says that documents are not supported (OPENID 281)', async () => {
    for (const path of ['oauth-authorization-server', 'openid-configuration']) {
      const metadata = (await open(t, `/.well-known/${path}`)).json()
      expect(metadata.client_id_metadata_document_supported).toBe(false)
    }
  })
})

describe('with CLIENT_METADATA_DOCUMENTS=open', () => {
  const environment = { ...documentsHere, CLIENT_METADATA_DOCUMENTS: 'open' }
  const t = useApp(environment, patientBounds)
  const hasty = useApp(environment, boundsWithin(2_000))

  /** A person who has signed in, and a document. */
  async function aVisitor(of = t) {
    const cookie = await signIn(of.app, await anAccount(of.db))
    return {
      cookie,
      ask: (clientId: string, parameters = {}) => open(of, link(clientId, parameters), cookie),
      approve: async (clientId: string, parameters = {}) => {
        const page = await open(of, link(clientId, parameters), cookie)
        return responseOf(await submitConsent(of, page, cookie, 'approve'))['code'] ?? ''
      },
    }
  }

  it('the metadata says that documents are supported (OPENID 281)', async () => {
    for (const path of ['oauth-authorization-server', 'openid-configuration']) {
      const metadata = (await open(t, `/.well-known/${path}`)).json()
      expect(metadata.client_id_metadata_document_supported).toBe(true)
    }
  })

  it('a document is read only for somebody who is signed in (OPENID 278)', async () => {
    const clientId = server.publish('signed-out')
    const signedOut = await open(t, link(clientId))
    expect(signedOut.headers.location).toMatch(/^\/login\?/)
    expect((await open(t, link(clientId, { prompt: 'none' }))).statusCode).toBe(400)
    expect(server.requests('signed-out')).toBe(0)
    const { ask } = await aVisitor()
    expect((await ask(clientId)).statusCode).toBe(200)
    expect(server.requests('signed-out')).toBe(1)
    // The page that asks for a password names no application that nobody has reviewed.
    const login = await open(t, String((await open(t, link(clientId))).headers.location))
    expect(login.statusCode).toBe(200)
    expect(login.body).not.toContain('Helper signed-out')
  })

  it('the consent page warns, names both hosts, and is never left out (OPENID 277)', async () => {
    const clientId = server.publish('open')
    const { cookie, ask } = await aVisitor()
    const page = await ask(clientId)
    expect(page.body).toContain('This application is not reviewed.')
    expect(page.body).toContain(`<strong>${new URL(clientId).host}</strong>`)
    expect(page.body).toContain('<strong>app.example.com</strong>')
    expect(page.body).not.toContain('localhost')
    expect((await submitConsent(t, page, cookie, 'approve')).statusCode).toBe(302)
    expect((await ask(clientId)).body).toContain('This application is not reviewed.')
    expect(responseOf(await ask(clientId, { prompt: 'none' }))).toMatchObject({ error: 'consent_required' })
  })

  it('the consent page says when an application returns only to this computer (OPENID 277)', async () => {
    const local = { redirect_uris: ['http://localhost:4000/cb', 'http://127.0.0.1:4000/cb'] }
    const { ask } = await aVisitor()
    const redirect_uri = 'http://localhost:4000/cb'
    const page = await ask(server.publish('local', local), { redirect_uri })
    expect(page.body).toContain('It returns only to this computer (localhost).')
  })

  it('a code is exchanged, and a pair refreshed and revoked, with the URL as client_id (OPENID 276–279)', async () => {
    const path = `${'long/'.repeat(40)}client.json`
    const application = { clientId: server.publish(path) }
    const { approve } = await aVisitor()
    const code = await approve(application.clientId)
    const form = { grant_type: 'authorization_code', code, code_verifier: verifier }
    const first = (await askAsPublic(t, application, 'token', form)).json()
    expect(await works(t, first.access_token)).toBe(true)
    const { refresh_token } = first
    const refreshed = await askAsPublic(t, application, 'token', {
      grant_type: 'refresh_token',
      refresh_token,
    })
    const second = refreshed.json()
    expect(await works(t, second.access_token)).toBe(true)
    const revoked = await askAsPublic(t, application, 'revoke', { token: second.access_token })
    expect(revoked.statusCode).toBe(200)
    expect(await works(t, second.access_token)).toBe(false)
  })

  it('redirect URIs are exact, also the port on loopback (OPENID 279)', async () => {
    const redirect_uris = ['http://127.0.0.1:4000/cb', documentRedirect]
    const clientId = server.publish('exact', { redirect_uris })
    const { ask } = await aVisitor()
    for (const redirect_uri of redirect_uris)
      expect((await ask(clientId, { redirect_uri })).statusCode).toBe(200)
    for (const redirect_uri of [
      'http://127.0.0.1:4001/cb',
      `${documentRedirect}/`,
      `${documentRedirect}?a=b`,
    ])
      expect((await ask(clientId, { redirect_uri })).statusCode).toBe(400)
    expect((await ask(clientId)).body).toContain('redirect_uri is missing')
  })

  it('two first requests at once make one application (OPENID 277)', async () => {
    const clientId = server.respond('race', (_request, response) => {
      // So long that all of them wait for the same response.
      void sleep(300).then(() => sendDocument(response, documentOf(clientId)))
    })
    const visitors = await Promise.all([aVisitor(), aVisitor(), aVisitor()])
    const pages = await Promise.all(visitors.map(({ ask }) => ask(clientId)))
    expect(pages.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200])
    expect(server.requests('race')).toBe(1)
    expect(await countRows(t.db, 'application', { client_id: clientId })).toBe(1)
  })

  it.each([
    ['the host in capitals', (url: string) => url.replace('127.0.0.1', 'LOCALHOST')],
    ['the host in another notation', (url: string) => url.replace('127.0.0.1', '2130706433')],
    ['a dot segment', (url: string) => url.replace('/spelled', '/a/../spelled')],
    ['an encoded dot segment', (url: string) => url.replace('/spelled', '/%2e/spelled')],
    ['a fragment', (url: string) => `${url}#a`],
    ['a username', (url: string) => url.replace('//', '//a@')],
    ['an empty username', (url: string) => url.replace('//', '//@')],
    ['a host that is no ASCII', () => 'http://b\u00fccher.example/client.json'],
    ['a full-width digit', (url: string) => url.replace('127', '\uff1127')],
    ['a dot after the host', () => 'https://client.example./client.json'],
    ['the default port', () => 'https://client.example:443/client.json'],
    ['no path', (url: string) => url.replace('/spelled', '')],
    ['an empty path', (url: string) => url.replace('/spelled', '/')],
    ['a backslash', (url: string) => url.replace('/spelled', '\\spelled')],
    ['a long path', (url: string) => url.replace('/spelled', `/${'a'.repeat(250)}`)],
  ])('a URL with %s is no client id (OPENID 279)', async (_what, respell) => {
    const clientId = server.publish('spelled')
    const { ask } = await aVisitor()
    const response = await ask(respell(clientId))
    expect(response.statusCode).toBe(400)
    expect(response.body).toContain('client_id is a URL')
    expect(server.requests('spelled')).toBe(0)
  })

  const other = useAnotherProcess(t)

  it('a changed document of an unreviewed application counts at once, and tokens stay (OPENID 280)', async () => {
    const clientId = server.publish('changed-open')
    const { cookie, ask, approve } = await aVisitor()
    const form = { grant_type: 'authorization_code', code: await approve(clientId), code_verifier: verifier }
    const pair = (await askAsPublic(t, { clientId }, 'token', form)).json()
    const waiting = await ask(clientId)
    const redirect_uri = 'https://new.example.com/callback'
    server.publish('changed-open', { redirect_uris: [redirect_uri], scope: 'registry-package:rw' })
    const page = await other.app.inject({ url: link(clientId, { redirect_uri }), headers: { cookie } })
    expect(page.body).toContain('<strong>new.example.com</strong>')
    expect(page.body).toContain('registry-package:rw')
    expect(await works(t, pair.access_token)).toBe(true)
    // The page with the former redirect URI is still open.
    const late = await submitConsent(t, waiting, cookie, 'approve')
    expect([late.statusCode, late.headers.location]).toEqual([400, undefined])
  })

  it('an administrator reviews it by an approval, and ends it by a suspension, also when it changes (OPENID 277, 280)', async () => {
    const clientId = server.publish('reviewed-open')
    const { cookie, ask } = await aVisitor()
    expect((await submitConsent(t, await ask(clientId), cookie, 'approve')).statusCode).toBe(302)
    const administrator = await anAdministrator(t)
    const { csrf_token } = administrator
    const url = `/admin/applications/${encodeURIComponent(clientId)}`
    expect(await findApplicationByClientId(t.db, clientId)).toMatchObject({
      reviewer: null,
      reviewedAt: null,
    })
    expect((await open(t, url, administrator.cookie)).body).toContain('not reviewed')
    await post(t.app, url, administrator.cookie, { csrf_token, act: 'approve', reason: '' })
    // Like every other application: the earlier consent is enough.
    expect((await ask(clientId)).statusCode).toBe(302)
    expect(await findApplicationByClientId(t.db, clientId)).toMatchObject({
      isUnreviewed: false,
      reviewer: administrator.account.username,
    })
    await post(t.app, url, administrator.cookie, { csrf_token, act: 'suspend', reason: '' })
    server.publish('reviewed-open', { client_name: 'Other' })
    const page = await other.app.inject({ url: link(clientId), headers: { cookie } })
    expect([page.statusCode, page.headers.location]).toEqual([400, undefined])
  })

  it('it cannot have a name that looks like that of a reviewed application (OPENID 277)', async () => {
    await anApplication(t.db, { name: 'Known Mirror' })
    const { ask } = await aVisitor()
    const page = await ask(server.publish('lookalike', { client_name: 'known mirror' }))
    expect(page.statusCode).toBe(400)
    expect(page.body).toContain('Its name looks like that of another application here.')
    expect(page.body).not.toContain('<title>Authorize')
  })

  it('nobody waits for an account that opens links of many new applications (OPENID 277)', async () => {
    const { ask } = await aVisitor()
    await withServerOf(
      async (_path, url) => documentOf(url),
      async (base) => {
        const statuses = []
        for (let n = 0; n < 21; n += 1) statuses.push((await ask(`${base}/${n}`)).statusCode)
        expect(statuses).toEqual([...Array.from({ length: 20 }, () => 200), 400])
      },
    )
  })

  it('an unused one is deleted after a month, and a used one is not (OPENID 277)', async () => {
    const [unused, used] = [server.publish('unused'), server.publish('used')]
    const { ask, approve } = await aVisitor()
    await ask(unused)
    await approve(used)
    await ageApplications(t.db, '31 days')
    await deleteUnusedApplications(t.db, 100)
    expect(await findApplicationByClientId(t.db, unused)).toBeNull()
    expect(await findApplicationByClientId(t.db, used)).not.toBeNull()
  })

  it.each([
    ['another status', 'status', (to: Respond) => to.writeHead(201, json).end(to.text)],
    ['404', 'gone', (to: Respond) => to.writeHead(404, json).end(to.text)],
    ['a redirect', 'moved', (to: Respond) => to.writeHead(302, { location: to.url }).end()],
    [
      'another type',
      'html',
      (to: Respond) => to.writeHead(200, { 'content-type': 'text/html' }).end(to.text),
    ],
    ['no type', 'untyped', (to: Respond) => to.writeHead(200).end(to.text)],
    ['more than 5 kB', 'large', (to: Respond) => to.writeHead(200, json).end(to.text + ' '.repeat(5200))],
    ['no body', 'silent', () => undefined],
    ['a body that never ends', 'slow', (to: Respond) => to.writeHead(200, json).write(to.text)],
  ])('a document with %s is refused, and asked for again (OPENID 278)', async (_what, path, send) => {
    const url = fetchServer.respond(path, (_request, response) => {
      send(Object.assign(response, { text: JSON.stringify(documentOf(url)), url: `${url}-2` }))
    })
    fetchServer.publish(`${path}-2`, { client_id: url })
    const { ask } = await aVisitor(['silent', 'slow'].includes(path) ? hasty : t)
    for (const count of [1, 2]) {
      const response = await ask(url)
      expect(response.statusCode).toBe(400)
      expect(response.body).toContain('The client metadata document cannot be read.')
      expect(fetchServer.requests(path)).toBe(count)
    }
    expect(fetchServer.requests(`${path}-2`)).toBe(0)
  })

  it.each(['application/json; charset=utf-8', 'application/client+json', 'APPLICATION/JSON'])(
    'a document of the type %s is read once (OPENID 278)',
    async (type) => {
      const path = type.replaceAll(/\W/g, '-')
      const url = fetchServer.respond(path, (_request, response) =>
        sendDocument(response, documentOf(url), { 'content-type': type, 'cache-control': 'no-store' }),
      )
      const { ask } = await aVisitor()
      expect([(await ask(url)).statusCode, (await ask(url)).statusCode]).toEqual([200, 200])
      expect(fetchServer.requests(path)).toBe(1)
    },
  )

  it('at most 30 documents of an origin are requested in a minute (OPENID 278)', async () => {
    const { ask } = await aVisitor()
    await withServerOf(
      async () => null,
      async (base, seen) => {
        let last = ''
        for (let n = 0; n < 33; n += 1) last = (await ask(`${base}/${n}`)).body
        expect(seen()).toHaveLength(30)
        expect(last).toContain('Too many client metadata documents of')
      },
    )
  })

  it('a person who signs in first comes back to the consent page (OPENID 278)', async () => {
    const clientId = server.publish('sign-in-first')
    const account = await anAccount(t.db)
    const login = String((await open(t, link(clientId))).headers.location)
    const form = await open(t, login)
    const fields = { csrf_token: csrfTokenIn(form), username: account.username, password }
    const returnId = new URL(login, 'http://svc.test').searchParams.get('return') ?? ''
    const signedIn = await post(t.app, '/login', cookiesOf(form), { ...fields, return: returnId })
    const back = String(signedIn.headers.location)
    expect(back).toBe(link(clientId))
    expect((await open(t, back, cookiesOf(signedIn))).body).toContain('This application is not reviewed.')
  })

  it.each([
    'http://127.0.0.2/client.json',
    'http://169.254.169.254/latest/meta-data',
    'https://10.0.0.1/client.json',
    'https://[::1]/client.json',
    'https://[::ffff:7f00:2]/client.json',
    'https://no-such-host.invalid/client.json',
  ])('a document of a host that is not public is not read: %s (OPENID 278)', async (clientId) => {
    const { ask } = await aVisitor()
    const page = await ask(clientId)
    expect(page.statusCode).toBe(400)
    expect(page.body).toContain('has no public IP')
  })

  it('a small response that is decompressed to a large one is refused (OPENID 278)', async () => {
    const url = fetchServer.respond('bomb', (_request, response) => {
      const text = JSON.stringify(documentOf(url)) + ' '.repeat(1_000_000)
      response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(gzipSync(text))
    })
    const { ask } = await aVisitor()
    expect((await ask(url)).body).toContain('The client metadata document cannot be read.')
  })

  // test/outbound/outbound.test.ts shows that the bounds of every kind hold.
  it('at most 16 documents are requested at once, without redirects, for a second and 5 kB (OPENID 278)', () => {
    const bounds = { requests: 16, connections: 4, redirects: 0, milliseconds: 1000, maxBytes: 5120 }
    expect(kinds.clientDocument).toMatchObject(bounds)
  })

  it('at most 4 documents of an origin are requested at once (OPENID 278)', async () => {
    const { cookie } = await aVisitor()
    // One network would have four pages at once.
    const askFrom = (remoteAddress: string, clientId: string) =>
      t.app.inject({ url: link(clientId), headers: { cookie }, remoteAddress })
    const held: ((document: null) => void)[] = []
    const hold = () => new Promise<null>((respond) => held.push(respond))
    await withServerOf(hold, async (base, seen) => {
      const asked = Promise.all(Array.from({ length: 10 }, (_, n) => askFrom(`192.0.2.${n}`, `${base}/${n}`)))
      for (const arrived of [4, 8, 10]) {
        await expect.poll(() => seen().length).toBe(arrived)
        // One that does not wait for its turn would come now.
        await sleep(50)
        expect(seen()).toHaveLength(arrived)
        for (const respond of held.splice(0)) respond(null)
      }
      await asked
    })
  })
})

describe('with CLIENT_METADATA_DOCUMENTS=review', () => {
  const t = useApp({ ...documentsHere, CLIENT_METADATA_DOCUMENTS: 'review' }, patientBounds)
  const other = useAnotherProcess(t)
  const reviewServer = useDocumentServer()

  async function aVisitor() {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    return {
      account,
      cookie,
      ask: (clientId: string, parameters = {}) => open(t, link(clientId, parameters), cookie),
    }
  }

  /** Approves a document as an administrator in the browser. */
  async function decide(clientId: string, act: 'approve' | 'reject', reason = '') {
    const { account, cookie, csrf_token } = await anAdministrator(t)
    const document = await waiting(clientId)
    const url = `/admin/applications/documents/${document?.id}`
    const response = await post(t.app, url, cookie, { csrf_token, act, reason })
    expect(response.statusCode).toBe(303)
    return { account, response }
  }
  const waiting = async (clientId: string) =>
    (await listClientDocuments(t.db, { after: null, limit: 100 })).find((one) => one.clientId === clientId)

  it('an unknown document waits, is listed, and becomes an application (OPENID 276)', async () => {
    const clientId = reviewServer.publish('unknown', {
      client_name: 'Reader <b>',
      scope: 'account-profile:r unheard-of',
    })
    const { account, ask } = await aVisitor()
    for (const parameters of [{}, { prompt: 'none' }]) {
      const page = await ask(clientId, parameters)
      expect([page.statusCode, page.headers.location]).toEqual([400, undefined])
      expect(page.body).toContain('waits for approval by an administrator')
    }
    expect(await countRows(t.db, 'application', { client_id: clientId })).toBe(0)
    const { cookie } = await anAdministrator(t)
    const list = (await open(t, '/admin/applications/documents', cookie)).body
    for (const words of [new URL(clientId).host, 'Reader &lt;b&gt;', 'app.example.com', account.username])
      expect(list).toContain(words)
    expect((await open(t, '/admin', cookie)).body).toContain('1 client metadata document waits for review')

    const { account: administrator, response } = await decide(clientId, 'approve')
    expect(response.headers.location).toBe(`/admin/applications/${encodeURIComponent(clientId)}`)
    expect(await findApplicationByClientId(t.db, clientId)).toMatchObject({
      name: 'Reader <b>',
      website: new URL(clientId).origin,
      isPublic: true,
      isUnreviewed: false,
      scopes: ['account-profile:r'],
      status: 'approved',
      reviewer: administrator.username,
    })
    expect(await waiting(clientId)).toBeUndefined()
    const consent = await ask(clientId)
    expect(consent.statusCode).toBe(200)
    expect(consent.body).not.toContain('not reviewed')
    const [event] = await eventsOf(t.db, { action: 'application-document-approved' }, ['actorId', 'details'])
    expect(event).toMatchObject({ actorId: administrator.id, details: { client_id: clientId } })
  })

  it('new redirect URIs of a changed document wait, and the old ones go on (OPENID 280)', async () => {
    const clientId = reviewServer.publish('changed')
    const { cookie, ask } = await aVisitor()
    await ask(clientId)
    await decide(clientId, 'approve')
    const redirect = await submitConsent(t, await ask(clientId), cookie, 'approve')
    const form = {
      grant_type: 'authorization_code',
      code: responseOf(redirect)['code'] ?? '',
      code_verifier: verifier,
    }
    const pair = (await askAsPublic(t, { clientId }, 'token', form)).json()

    const added = 'https://evil.example.com/callback'
    reviewServer.publish('changed', { redirect_uris: [documentRedirect, added] })
    const askOther = (redirect_uri: string) =>
      other.app.inject({ url: link(clientId, { redirect_uri }), headers: { cookie } })
    // The earlier consent covers it.
    expect((await askOther(documentRedirect)).headers.location).toMatch(
      /^https:\/\/app\.example\.com\/callback\?code=/,
    )
    const refused = await askOther(added)
    expect([refused.statusCode, refused.headers.location]).toEqual([400, undefined])
    expect(refused.body).toContain('waits for approval by an administrator')
    expect(await works(t, pair.access_token)).toBe(true)
    const document = await waiting(clientId)
    expect(describeClientDocument(document as ListedDocument)).toMatchObject({
      registered: true,
      new_redirect_uris: [added],
    })

    await decide(clientId, 'approve')
    expect((await askOther(added)).headers.location).toMatch(/^https:\/\/evil\.example\.com\/callback\?code=/)
    expect(await works(t, pair.access_token)).toBe(true)
  })

  it('a rejected document stays rejected, also when it changes, and its approved part goes on (OPENID 276, 280)', async () => {
    const [fresh, known] = [reviewServer.publish('rejected'), reviewServer.publish('half-rejected')]
    const { cookie, ask } = await aVisitor()
    await ask(fresh)
    await ask(known)
    await decide(known, 'approve')
    const { account } = await decide(fresh, 'reject', 'Nobody knows it')
    expect((await ask(fresh)).body).toContain('An administrator has rejected this application.')
    const askOther = (clientId: string, redirect_uri: string) =>
      other.app.inject({ url: link(clientId, { redirect_uri }), headers: { cookie } })
    const added = 'https://new.example.com/callback'
    for (const path of ['rejected', 'half-rejected'])
      reviewServer.publish(path, { redirect_uris: [added, documentRedirect], client_name: 'Another' })
    expect((await askOther(fresh, documentRedirect)).body).toContain('An administrator has rejected')
    expect((await askOther(known, added)).body).toContain('waits for approval')
    await decide(known, 'reject')
    expect((await askOther(known, added)).body).toContain('An administrator has rejected')
    expect((await askOther(known, documentRedirect)).statusCode).toBe(200)
    const events = await eventsOf(t.db, { action: 'application-document-rejected' }, ['actorId', 'details'])
    expect(events.map(({ details }) => details['client_id'])).toEqual([fresh, known])
    expect(events.find(({ actorId }) => actorId === account.id)?.details).toMatchObject({
      reason: 'Nobody knows it',
    })
  })

  it('a decision is about the text that was shown (OPENID 276)', async () => {
    const clientId = reviewServer.publish('swapped')
    const { cookie, ask } = await aVisitor()
    await ask(clientId)
    const administrator = await anAdministrator(t)
    const shown = await waiting(clientId)
    reviewServer.publish('swapped', { redirect_uris: ['https://evil.example.com/'] })
    await other.app.inject({ url: link(clientId), headers: { cookie } })
    const { csrf_token } = administrator
    const url = `/admin/applications/documents/${shown?.id}`
    const response = await post(t.app, url, administrator.cookie, { csrf_token, act: 'approve', reason: '' })
    expect(response.statusCode).toBe(404)
    expect(await countRows(t.db, 'application', { client_id: clientId })).toBe(0)
  })

  it('one account fills only a small part of the list (OPENID 276)', async () => {
    const { ask } = await aVisitor()
    const others = await aVisitor()
    await withServerOf(
      async (_path, url) => documentOf(url),
      async (base) => {
        const pages = await Promise.all(Array.from({ length: 8 }, (_, n) => ask(`${base}/${n}`)))
        const bodies = pages.map(({ body }) => body)
        expect(bodies.filter((body) => body.includes('waits for approval by an administrator'))).toHaveLength(
          5,
        )
        expect(bodies.filter((body) => body.includes('Too many applications wait'))).toHaveLength(3)
        expect((await others.ask(`${base}/9`)).body).toContain('waits for approval by an administrator')
      },
    )
  })

  it('an application that open mode has made waits for a review, too (OPENID 276)', async () => {
    const clientId = reviewServer.publish('from-open')
    const { account, ask } = await aVisitor()
    const document = {
      clientId,
      name: 'Opened',
      redirectUris: [documentRedirect],
      scopes: ['account-profile:r'],
    }
    await registerUnreviewed(t.db, operator, document, account.id)
    expect((await ask(clientId)).body).toContain('waits for approval by an administrator')
    await decide(clientId, 'reject', 'No')
    expect((await findApplicationByClientId(t.db, clientId))?.status).toBe('declined')
  })
})

type Respond = ServerResponse & { text: string; url: string }
const json = { 'content-type': 'application/json' }

/** Runs work with a server of documents at every path, which is an origin of its own. Null is 404. */
async function withServerOf(
  documentAt: (path: string, url: string) => Promise<object | null>,
  work: (base: string, seen: () => string[]) => Promise<void>,
): Promise<void> {
  const seen: string[] = []
  const origin = createServer((request, response) => {
    const path = request.url ?? ''
    seen.push(path)
    void documentAt(path, `http://${request.headers.host}${path}`).then((document) => {
      if (document === null) response.writeHead(404).end()
      else sendDocument(response, document)
    })
  })
  await new Promise<void>((resolve) => origin.listen(0, '127.0.0.1', resolve))
  try {
    await work(`http://127.0.0.1:${(origin.address() as AddressInfo).port}`, () => seen)
  } finally {
    origin.closeAllConnections()
    await new Promise((resolve) => origin.close(resolve))
  }
}
