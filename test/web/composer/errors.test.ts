import { describe, expect, it } from 'vitest'
import { errcode, notAuthorized, Refusal } from '../../../src/domain/refusal.ts'

describe('Refusal', () => {
  it('contains errcode and errmsg, and no key without a value', () => {
    const refusal = new Refusal(errcode.notFound, 'no such package')
    expect(refusal).toBeInstanceOf(Error)
    expect(refusal.message).toBe('no such package')
    expect(JSON.stringify(refusal.body)).toBe('{"errcode":5,"errmsg":"no such package"}')
  })

  it('carries a warning for Composer to print, and details', () => {
    const refusal = new Refusal(errcode.invalidArgument, 'no', { warning: 'w', details: ['a', 'b'] })
    expect(refusal.body).toEqual({ errcode: 3, errmsg: 'no', warning: 'w', details: ['a', 'b'] })
  })

  it('does not show its cause to the client', () => {
    const cause = new Error('connection to 10.0.0.1 lost')
    const refusal = new Refusal(errcode.unavailable, 'try again later', { cause })
    expect(refusal.cause).toBe(cause)
    expect(JSON.stringify(refusal.body)).not.toContain('10.0.0.1')
  })

  it.each([
    [3, 400],
    [4, 504],
    [5, 404],
    [6, 409],
    [7, 403],
    [8, 429],
    [9, 400],
    [10, 409],
    [11, 400],
    [12, 501],
    [13, 500],
    [14, 503],
    [15, 500],
    [16, 401],
  ] as const)('sends errcode %i with status %i (COMPOSER D)', (code, status) => {
    expect(new Refusal(code, 'refused').status).toBe(status)
  })

  it('can have a status that is more specific than its errcode', () => {
    expect(new Refusal(errcode.resourceExhausted, 'too large', { status: 413 }).status).toBe(413)
  })

  it('says exactly "not authorized", with 401 or 403 (SPEC 7)', () => {
    expect(notAuthorized().body).toEqual({ errcode: 16, errmsg: 'not authorized' })
    expect(notAuthorized().status).toBe(401)
    expect(notAuthorized({ status: 403, warning: 'no right to upload' })).toMatchObject({
      status: 403,
      body: { errcode: 16, errmsg: 'not authorized', warning: 'no right to upload' },
    })
  })
})
