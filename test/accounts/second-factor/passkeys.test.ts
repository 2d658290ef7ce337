import { createHash, randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { removePasskey } from '../../../src/accounts/second-factor/factors.ts'
import {
  deleteExpiredChallenges,
  makeChallenge,
  spendChallenge,
} from '../../../src/accounts/second-factor/passkey-challenges.ts'
import { operator } from '../../../src/domain/principal.ts'
import { aStoredPasskey, forgetPasskeyKind, removePassword } from '../../support/account-rows.ts'
import { anAccount, cookiesOf, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { countEvents } from '../../support/event-rows.ts'
import { aPersonWithTotp, codeOf, halfSignIn } from '../../support/factor-actors.ts'
import { countExpired, countRows, expire } from '../../support/rows.ts'

/** Returns a new passkey of an authenticator as JSON, without attestation (WebAuthn §6.5, §8.7). */
function aNewPasskey(challenge: string, credentialId: Buffer): string {
  const coordinate = (tag: number) => Buffer.concat([Buffer.from([tag, 0x58, 32]), randomBytes(32)])
  const authenticatorData = Buffer.concat([
    createHash('sha256').update('svc.example.com').digest(),
    // The person was present, and the data has a credential. The counter is 0, and the model is unknown.
    Buffer.from([0x41, 0, 0, 0, 0]),
    Buffer.alloc(16),
    Buffer.from([credentialId.length >> 8, credentialId.length & 0xff]),
    credentialId,
    Buffer.from([0xa5, 1, 2, 3, 0x26, 0x20, 1]),
    coordinate(0x21),
    coordinate(0x22),
  ])
  const { length } = authenticatorData
  const attestation = Buffer.concat([
    Buffer.from('\xa3cfmtdnonegattStmt\xa0hauthData\x59', 'latin1'),
    Buffer.from([length >> 8, length & 0xff]),
    authenticatorData,
  ])
  const data = JSON.stringify({ type: 'webauthn.create', challenge, origin: 'https://svc.example.com' })
  const id = credentialId.toString('base64url')
  const response = {
    clientDataJSON: Buffer.from(data).toString('base64url'),
    attestationObject: attestation.toString('base64url'),
  }
  return JSON.stringify({ id, rawId: id, type: 'public-key', response })
}

describe('GET /login/passkey', () => {
  const t = useApp({ BASE_URL: 'https://svc.example.com', AUTH_URL: 'https://svc.example.com:8443/auth' })

  it('allows scripts of this server only, and /login only the one that offers passkeys (OAUTH 41)', async () => {
    const page = await t.app.inject('/login/passkey')
    expect(page.statusCode).toBe(200)
    const policy = String(page.headers['content-security-policy'])
    expect(policy).toContain("script-src 'self'")
    expect(policy).not.toMatch(/unsafe|form-action|connect-src/)
    const login = await t.app.inject('/login')
    const script = login.body.match(/<script src="([^"]+)"/)?.[1]
    expect(script).toMatch(/passkey\.js$/)
    expect(login.body.match(/<script/g)).toHaveLength(1)
    const own = String(login.headers['content-security-policy'])
    const scripts = `https://svc.example.com${script} https://svc.example.com:8443${script}`
    expect(own.split('; script-src ')[1]).toBe(scripts)
    expect(own).not.toMatch(/unsafe|form-action|connect-src/)
    expect(login.body).toContain('href="/login/passkey"')
    const options = JSON.parse(
      (/data-options="([^"]+)"/.exec(page.body)?.[1] ?? '').replaceAll('&quot;', '"'),
    )
    expect(options).toMatchObject({ rpId: 'svc.example.com', userVerification: 'required' })
  })

  it.each([
    '',
    '{}',
    'null',
    '[]',
    'nonsense',
    '{"id":"a","rawId":"a","type":"public-key","response":{"clientDataJSON":"e30","authenticatorData":"a","signature":"a"}}',
    '{"id":"a","rawId":"a","type":"public-key","response":{"clientDataJSON":"____","authenticatorData":"a","signature":"a"}}',
    `{"id":"${'a'.repeat(9000)}"}`,
  ])('refuses %.60s as a credential', async (credential) => {
    const page = await t.app.inject('/login/passkey')
    const form = { csrf_token: csrfTokenIn(page), credential }
    const refused = await post(t.app, '/login/passkey', cookiesOf(page), form)
    expect(refused.statusCode).toBe(403)
    expect(refused.body).toContain('was not accepted')
  })

  it('stores nothing for a challenge, so that nobody can remove the challenge of somebody else', async () => {
    const person = await aPersonWithTotp(t)
    const { cookie } = await halfSignIn(t.app, person)
    const owner = { browser: 'x', accountId: person.id, purpose: 'second-step' } as const
    const challenge = (await makeChallenge(t.db, owner)).toString('base64url')
    for (let n = 0; n < 105; n++) {
      await t.app.inject('/login/passkey')
      await t.app.inject({ url: '/login/passkey', headers: { cookie } })
    }
    expect(await countRows(t.db, 'spent_challenge')).toBe(0)
    expect(await spendChallenge(t.db, challenge, owner)).toBe(true)
  })

  it('does not count a page without its challenge as a failed second step', async () => {
    const person = await aPersonWithTotp(t)
    const half = await halfSignIn(t.app, person)
    const page = await t.app.inject({ url: '/login/passkey', headers: { cookie: half.cookie } })
    const challenge = Buffer.from(JSON.stringify({ challenge: randomBytes(32).toString('base64url') }))
    const clientDataJSON = challenge.toString('base64url')
    const response = { clientDataJSON, authenticatorData: 'a', signature: 'a' }
    const credential = JSON.stringify({ id: 'a', rawId: 'a', type: 'public-key', response })
    const form = { csrf_token: csrfTokenIn(page), credential }
    for (let n = 0; n < 12; n++) {
      const refused = await post(t.app, '/login/passkey', half.cookie, form)
      expect(refused.statusCode).toBe(403)
      expect(refused.body).toContain('Your passkey was not checked. Try again.')
    }
    const failed = { action: 'second-factor-failed', accountId: person.id }
    expect(await countEvents(t.db, failed)).toBe(0)
    expect((await half.send({ code: codeOf(person.secret) })).statusCode).toBe(303)
  })

  it('counts wrong passkeys of an account separately, for each network', async () => {
    const person = await aPersonWithTotp(t)
    const half = await halfSignIn(t.app, person)
    /** Sends a passkey of nobody for the challenge of the page. */
    const send = async (remoteAddress: string) => {
      const page = await t.app.inject({ url: '/login/passkey', headers: { cookie: half.cookie } })
      const [, challenge = ''] = /&quot;challenge&quot;:&quot;([\w-]+)&quot;/.exec(page.body) ?? []
      const clientDataJSON = Buffer.from(JSON.stringify({ challenge })).toString('base64url')
      const response = { clientDataJSON, authenticatorData: 'a', signature: 'a' }
      const credential = JSON.stringify({ id: 'a', rawId: 'a', type: 'public-key', response })
      const payload = new URLSearchParams({ csrf_token: csrfTokenIn(page), credential }).toString()
      const headers = { 'content-type': 'application/x-www-form-urlencoded', cookie: half.cookie }
      return t.app.inject({ method: 'POST', url: '/login/passkey', headers, payload, remoteAddress })
    }
    for (let n = 0; n < 10; n++) {
      const refused = await send('192.0.2.78')
      expect(refused.statusCode).toBe(403)
      expect(refused.body).toContain('this account does not have it')
    }
    expect((await send('192.0.2.78')).statusCode).toBe(429)
    expect((await send('192.0.2.79')).statusCode).toBe(403)
    for (let n = 0; n < 11; n++) await half.send({ code: '000000' })
    expect((await half.send({ code: codeOf(person.secret) })).statusCode).toBe(429)
    expect((await send('192.0.2.79')).statusCode).toBe(403)
  })

  it('limits wrong passkeys of a network', async () => {
    const page = await t.app.inject({ url: '/login/passkey', remoteAddress: '192.0.2.77' })
    const payload = new URLSearchParams({ csrf_token: csrfTokenIn(page), credential: '{}' }).toString()
    const headers = { 'content-type': 'application/x-www-form-urlencoded', cookie: cookiesOf(page) }
    const send = () =>
      t.app.inject({ method: 'POST', url: '/login/passkey', headers, payload, remoteAddress: '192.0.2.77' })
    for (let n = 0; n < 100; n++) await send()
    expect((await send()).statusCode).toBe(429)
  })
})

describe('a challenge', () => {
  const t = useApp()
  const owner = { browser: 'one', accountId: '7', purpose: 'confirm' } as const

  it('works once, also in twenty racing requests', async () => {
    const challenge = (await makeChallenge(t.db, owner)).toString('base64url')
    const spent = await Promise.all(Array.from({ length: 20 }, () => spendChallenge(t.db, challenge, owner)))
    expect(spent.filter(Boolean)).toHaveLength(1)
    expect(await spendChallenge(t.db, challenge, owner)).toBe(false)
    expect(await spendChallenge(t.db, `${challenge}=`, owner)).toBe(false)
  })

  it.each([
    ['browser', { browser: 'two' }],
    ['account', { accountId: '8' }],
    ['account, or none', { accountId: null }],
    ['purpose', { purpose: 'second-step' }],
  ] as const)('belongs to its %s', async (_what, other) => {
    const challenge = (await makeChallenge(t.db, owner)).toString('base64url')
    expect(await spendChallenge(t.db, challenge, { ...owner, ...other })).toBe(false)
    expect(await spendChallenge(t.db, challenge, owner)).toBe(true)
  })

  it('works until it expires, and cannot be made or changed by anybody else', async () => {
    const expired = await makeChallenge(t.db, owner, -1)
    expect(await spendChallenge(t.db, expired.toString('base64url'), owner)).toBe(false)
    // A later expiry breaks the signature.
    const prolonged = Buffer.from(expired)
    prolonged.writeDoubleBE(Date.now() / 1000 + 300, 16)
    for (const forged of [prolonged, randomBytes(56), randomBytes(32), Buffer.alloc(0)])
      expect(await spendChallenge(t.db, forged.toString('base64url'), owner)).toBe(false)
    expect(await countExpired(t.db, 'spent_challenge')).toBe(0)
  })

  it('is forgotten some time after it expired', async () => {
    const challenge = (await makeChallenge(t.db, owner)).toString('base64url')
    await spendChallenge(t.db, challenge, owner)
    const count = () => countRows(t.db, 'spent_challenge')
    const before = await count()
    await deleteExpiredChallenges(t.db, 100)
    expect(await count()).toBe(before)
    await expire(t.db, 'spent_challenge')
    await deleteExpiredChallenges(t.db, 100)
    expect(await count()).toBe(0)
  })
})

describe('the page of the second factor', () => {
  const t = useApp({ BASE_URL: 'https://svc.example.com' })

  it('refuses a passkey without a name, and values that are not a passkey', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const page = await t.app.inject({ url: '/settings/second-factor/passkeys/new', headers: { cookie } })
    const csrf_token = csrfTokenIn(page)
    const add = (form: Record<string, string>) =>
      post(t.app, '/settings/second-factor/passkeys', cookie, { csrf_token, ...form })
    expect((await add({ name: ' ', credential: '{}' })).statusCode).toBe(400)
    expect((await add({ name: 'Laptop', credential: '{}' })).statusCode).toBe(403)
    const removed = await post(t.app, '/settings/second-factor/passkeys/remove', cookie, {
      csrf_token,
      id: '1',
    })
    expect(removed.statusCode).toBe(404)
  })
})

describe('POST /settings/second-factor/passkeys', () => {
  const t = useApp({ BASE_URL: 'https://svc.example.com' })

  it.each([
    ['adds a passkey whose id has 1023 bytes', 1023, 200, 'recovery codes'],
    ['refuses a longer id, which no authenticator may have', 1024, 403, 'was not accepted'],
  ])('%s (WebAuthn §4)', async (_what, bytes, status, words) => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const page = await t.app.inject({ url: '/settings/second-factor/passkeys/new', headers: { cookie } })
    const challenge = /&quot;challenge&quot;:&quot;([\w-]+)&quot;/.exec(page.body)?.[1] ?? ''
    const credential = aNewPasskey(challenge, randomBytes(bytes))
    const form = { csrf_token: csrfTokenIn(page), name: 'Laptop', credential }
    const response = await post(t.app, '/settings/second-factor/passkeys', cookie, form)
    expect(response.statusCode).toBe(status)
    expect(response.body).toContain(words)
  })
})

describe('an account', () => {
  const t = useApp({ BASE_URL: 'https://svc.example.com' })

  it('has at most 20 passkeys, also when the last ones are added at once', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    for (let n = 0; n < 18; n += 1) await aStoredPasskey(t.db, account, { name: `Key ${n}` })
    const forms = []
    for (let n = 0; n < 6; n += 1) {
      const page = await t.app.inject({ url: '/settings/second-factor/passkeys/new', headers: { cookie } })
      const challenge = /&quot;challenge&quot;:&quot;([\w-]+)&quot;/.exec(page.body)?.[1] ?? ''
      const credential = aNewPasskey(challenge, randomBytes(32))
      forms.push({ csrf_token: csrfTokenIn(page), name: `New ${n}`, credential })
    }
    const added = await Promise.all(
      forms.map((form) => post(t.app, '/settings/second-factor/passkeys', cookie, form)),
    )
    const statuses = added.map(({ statusCode }) => statusCode)
    expect(statuses.filter((status) => status === 200 || status === 303)).toHaveLength(2)
    expect(statuses.filter((status) => status === 409)).toHaveLength(4)
    expect(await countRows(t.db, 'passkey', { accountId: account.id })).toBe(20)
  })
})

describe('the passkeys of a person without a password', () => {
  const t = useApp({ BASE_URL: 'https://svc.example.com' })

  it('can be removed except the last one, also when two are removed at once', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const page = await t.app.inject({ url: '/settings/account', headers: { cookie } })
    const csrf_token = csrfTokenIn(page)
    const ids = [
      await aStoredPasskey(t.db, account, { name: 'one', canSignIn: true }),
      await aStoredPasskey(t.db, account, { name: 'two', canSignIn: true }),
    ]
    await removePassword(t.db, account)
    const removed = await Promise.all(
      ids.map((id) => post(t.app, '/settings/second-factor/passkeys/remove', cookie, { csrf_token, id })),
    )
    expect(removed.map(({ statusCode }) => String(statusCode)).toSorted()).toEqual(['303', '409'])
    expect(removed.find(({ statusCode }) => statusCode === 409)?.body).toContain('only way to sign in')
    expect(await countRows(t.db, 'passkey', { accountId: account.id })).toBe(1)
  })

  it('are no way to sign in if they cannot replace the password, or are not known to', async () => {
    const { id: accountId } = await anAccount(t.db)
    const add = (name: string, canSignIn: boolean | null) =>
      aStoredPasskey(t.db, { id: accountId }, { name, canSignIn })
    const [laptop, key, old] = [await add('laptop', true), await add('key', false), await add('old', null)]
    await removePassword(t.db, { id: accountId })
    const remove = (id: string) => removePasskey(t.db, operator, accountId, id, t.config, null)
    expect(await remove(laptop)).toBe('only-way')
    expect(await remove(key)).toBe('removed')
    // It may be a way to sign in, while the other one is not removed.
    expect(await remove(old)).toBe('removed')
    const unknown = [await add('first', null), await add('second', null)]
    await forgetPasskeyKind(t.db, laptop)
    for (const id of [laptop, ...unknown]) expect(await remove(id)).toBe('only-way')
  })
})

describe('a server whose host is an IP address', () => {
  const t = useApp({ BASE_URL: 'http://127.0.0.1:3000' })

  it('offers no passkeys, because browsers do not allow them there', async () => {
    expect((await t.app.inject('/login')).body).not.toContain('/login/passkey')
    expect((await t.app.inject('/login/passkey')).statusCode).toBe(404)
  })
})
