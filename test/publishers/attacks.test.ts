import { describe, expect, it } from 'vitest'
import { useApp } from '../support/app.ts'
import { issuersHere, useCiIssuer } from '../support/ci-issuer.ts'
import { aTrustedRepository, exchangeAt, jobClaims } from '../support/publisher-actors.ts'

const t = useApp(issuersHere)
const ci = useCiIssuer()

/** The last bits of a signature in base64url mean nothing: returns the same token in other bytes. */
function inOtherBytes(token: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const last = alphabet.indexOf(token.at(-1) ?? '')
  return token.slice(0, -1) + alphabet[last ^ 1]
}

describe('an attacker', () => {
  it('cannot exchange a token without an id again in other bytes', async () => {
    const { exchange } = await aTrustedRepository(t, ci)
    const token = await ci.sign({ ...jobClaims, jti: undefined })
    expect((await exchange(token)).statusCode).toBe(200)
    const again = await exchange(inOtherBytes(token))
    expect(again.json()).toMatchObject({ error: 'invalid_grant' })
  })

  it.each([
    ['iss', 'http://a\0b'],
    ['iss', 'http://a\ud800'],
    ['ref', 'refs/heads/a\0b'],
    ['sha', 'a\ud800'],
    ['ref', `${'a'.repeat(499)}😀`],
    ['workflow_ref', 'acme/lib/.github/workflows/release.yml@refs/heads/a\0b'],
    ['environment', '\0'],
    ['event_name', 'x\ud800'],
    ['jti', '\0\ud800'],
    ['repository_id', '1\0'],
    ['repository_owner_id', '\ud800'],
    ['run_id', '\0'],
    ['exp', 1e300],
    ['exp', -1],
    ['iat', -1e300],
    ['aud', { a: '\0' }],
  ])('causes no error of the server with %s=%j', async (claim, value) => {
    const { exchange } = await aTrustedRepository(t, ci, { environment: 'test' })
    const environment = claim === 'environment' ? value : 'test'
    const response = await exchange(await ci.sign({ ...jobClaims, environment, [claim]: value }))
    expect([200, 400]).toContain(response.statusCode)
    const refused = await exchange(await ci.sign({ ...jobClaims, environment: 'x', [claim]: value }))
    expect(refused.statusCode).toBe(400)
  })

  it('cannot use a file whose name begins with that of the workflow', async () => {
    const { exchange } = await aTrustedRepository(t, ci)
    const workflow_ref = 'acme/lib/.github/workflows/release.yml@evil.yml@refs/heads/main'
    const response = await exchange(await ci.sign({ ...jobClaims, workflow_ref }))
    expect(response.json()).toMatchObject({
      error_description: expect.stringContaining('The claim workflow_ref differs'),
    })
  })

  it('learns nothing of the documents of an issuer on a private host', async () => {
    ci.tell({ discovery: { jwks_uri: 'http://10.11.12.13/secret' } })
    const { exchange } = await aTrustedRepository(t, ci, { issuer: `${ci.issuer}/leaks` })
    const response = await exchange(await ci.sign({ ...jobClaims, iss: `${ci.issuer}/leaks` }))
    expect(response.json()).toMatchObject({ error: 'invalid_grant' })
    expect(response.body).not.toContain('10.11.12.13')
    expect(response.body).toContain('OUTBOUND_PRIVATE_HOSTS')
  })

  it('does not make svc ask an issuer that fails more than once a minute', async () => {
    const issuer = `${ci.issuer}/fails`
    const { exchange } = await aTrustedRepository(t, ci, { issuer })
    ci.tell({ respond: (response) => void response.writeHead(500).end() })
    const token = await ci.sign({ ...jobClaims, iss: issuer })
    for (let i = 0; i < 3; i += 1)
      expect((await exchange(token)).json()).toMatchObject({ error: 'invalid_grant' })
    expect(ci.requests.filter((path) => path.startsWith('/fails'))).toHaveLength(1)
  })

  it('cannot exchange a token of a resource with characters that no name has', async () => {
    const token = await ci.sign(jobClaims)
    for (const resource of [
      'http://svc.test/a%00/b/-/packages/',
      'http://svc.test/../../-/packages/',
      'http://svc.test/a\ud800/b/-/packages/',
    ]) {
      const response = await exchangeAt(t, { subject_token: token, resource })
      expect(response.statusCode).toBe(400)
    }
  })
})
