import { randomBytes } from 'node:crypto'
import argon2 from 'argon2'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  findPasswordProblem,
  HashQueueFullError,
  hashPassword,
  isPassword,
} from '../../src/accounts/passwords.ts'
import { countFailuresAbove } from '../support/account-rows.ts'
import { anAccount, cookiesOf, csrfTokenIn, hashCheaply, password, post } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { aZip } from '../support/zip.ts'

afterEach(() => void vi.restoreAllMocks())

/** Lets argon2 finish no hash until `release`. */
function holdHashes() {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const { verify } = argon2
  vi.spyOn(argon2, 'verify').mockImplementation(async (...given) => {
    await released
    return verify(...given)
  })
  return { release }
}

/** Counts how many argon2 hashes run at once, and the maximum. The hash `number` does not end before `until`. */
function watchHashes(number = 0, until = Promise.resolve()) {
  const seen = { running: 0, most: 0 }
  let begun = 0
  const { verify } = argon2
  vi.spyOn(argon2, 'verify').mockImplementation(async (...given) => {
    seen.running += 1
    seen.most = Math.max(seen.most, seen.running)
    begun += 1
    const isHeld = begun === number
    try {
      return await verify(...given)
    } finally {
      if (isHeld) await until
      seen.running -= 1
    }
  })
  return seen
}

describe('a chosen password', () => {
  it.each([
    ['short but', /at least 12 characters/],
    ['ééééééééééé', /at least 12 characters/],
    ['123456789012', /most common/],
    ['Christopher1', /most common/],
    ['Ann-Of-The-Hills', /is the username/],
    ['é'.repeat(513), /longer than 1024 bytes/],
  ])('cannot be %s', (password, problem) => {
    expect(findPasswordProblem(password, 'ann-of-the-hills')).toMatch(problem)
  })

  it.each(['correct horse battery staple', 'éééééééééééé', 'aB3$aB3$aB3$'])('can be %s', (password) => {
    expect(findPasswordProblem(password, 'ann')).toBeNull()
  })
})

describe('hashing a password', () => {
  it('runs at most two at once, and refuses those that would wait too long', async () => {
    const hash = await hashCheaply('y')
    const seen = watchHashes()
    const all = await Promise.allSettled(Array.from({ length: 70 }, () => isPassword('x', hash)))
    const refused = all.filter((one) => one.status === 'rejected')
    expect(refused).toHaveLength(8)
    expect(refused.every(({ reason }) => reason instanceof HashQueueFullError)).toBe(true)
    expect(seen).toEqual({ running: 0, most: 2 })
    expect(await isPassword('again', await hashPassword('again'))).toBe(true)
  })

  it('continues after a hash that cannot be read', async () => {
    const broken = await Promise.allSettled(Array.from({ length: 5 }, () => isPassword('x', 'no hash')))
    expect(broken.every(({ status }) => status === 'rejected')).toBe(true)
    expect(await isPassword('again', await hashPassword('again'))).toBe(true)
  })
})

describe('many sign-ins at once', () => {
  const t = useApp({ TRUST_PROXY: 'true' })

  async function aFormOf(username: string) {
    const form = await t.app.inject('/login')
    return { cookie: cookiesOf(form), fields: { csrf_token: csrfTokenIn(form), username, password } }
  }

  it('let a download that begins after them finish before them', async () => {
    const large = aZip({ 'composer.json': '{"name":"acme/lib"}', 'noise.bin': randomBytes(700_000) })
    const publisher = await aPublisher(t)
    const { sha256 } = (await publisher.push('1.0.0', { payload: large })).json()
    let end = () => {}
    const downloaded = new Promise<void>((resolve) => {
      end = resolve
    })
    // The last one waits for a download that a busy machine slows down. If the download waited for all, neither would end.
    const seen = watchHashes(20, downloaded)
    const forms = await Promise.all(Array.from({ length: 20 }, (_, n) => aFormOf(`nobody-${n}`)))
    let finished = 0
    const signIns = forms.map(async ({ cookie, fields }, n) => {
      const response = await post(t.app, '/login', cookie, fields, { 'x-forwarded-for': `192.0.2.${n}` })
      finished += 1
      return response.statusCode
    })
    await expect.poll(() => seen.running, { interval: 1 }).toBe(2)
    const download = await publisher.ask(`dist/acme/lib/1.0.0/${sha256}.zip`)
    expect(download.rawPayload.equals(large)).toBe(true)
    expect(finished).toBeLessThan(20)
    end()
    expect(await Promise.all(signIns)).toEqual(Array(20).fill(403))
    expect(seen.most).toBe(2)
  })

  it('get 429 with Retry-After when the queue is full, and their attempts do not count', async () => {
    const { username } = await anAccount(t.db)
    const { cookie, fields } = await aFormOf(username)
    const hash = await hashCheaply('y')
    const { release } = holdHashes()
    const queued = Promise.all(Array.from({ length: 62 }, () => isPassword('x', hash)))
    const ip = { 'x-forwarded-for': '198.51.100.1' }
    // If the attempt waited, too, it would get no response before the release.
    onTestFinished(release)
    const sent = post(t.app, '/login', cookie, fields, ip)
    const status = vi.fn()
    void sent.then(({ statusCode }) => status(statusCode))
    await expect.poll(() => status.mock.calls).toEqual([[429]])
    release()
    const response = await sent
    expect(response.headers['retry-after']).toBe('2')
    expect(response.body).toContain('Too many people are signing in')
    await queued
    expect((await post(t.app, '/login', cookie, fields, ip)).statusCode).toBe(303)
    expect(await countFailuresAbove(t.db, 1)).toBe(0)
  })
})
