import { describe, expect, it } from 'vitest'
import { hashSecret, makeSecret } from '../../src/domain/secrets.ts'
import { refreshPair } from '../../src/oauth/tokens.ts'
import { useApp } from '../support/app.ts'
import { anAuthorizedApplication, pass } from '../support/token-client.ts'

describe('the functions of the token endpoints (DESIGN §5)', () => {
  const t = useApp()

  it('answer many calls in one statement, each for itself and in order', async () => {
    const { application, newCode } = await anAuthorizedApplication(t)
    const [one, other] = [await newCode(), await newCode()]
    const codes = [one, makeSecret('code'), other, one]
    const { rows } = await t.db.query(
      `select answer.outcome
         from unnest($3::bytea[], $4::bytea[], $5::bytea[]) with ordinality as call (code, access, refresh, position)
        cross join lateral exchange_code($1, $2, call.code, null, null, call.access, call.refresh, 60, 60) as answer
        order by position`,
      [
        application.clientId,
        hashSecret(application.clientSecret),
        codes.map(hashSecret),
        codes.map(() => hashSecret(makeSecret('access'))),
        codes.map(() => hashSecret(makeSecret('refresh'))),
      ],
    )
    expect(rows.map(({ outcome }) => outcome)).toEqual(['issued', 'invalid_grant', 'issued', 'replayed'])
  })

  it('see what ended a pair while they waited, though they began before it (OAUTH 116)', async () => {
    const { application, refresh, tokens } = await anAuthorizedApplication(t)
    const first = await tokens()
    const pair = (await refresh(first.refresh_token)).json()
    await pass(t.db, 300)
    const early = await t.db.connect()
    await early.query('begin')
    await refresh(first.refresh_token)
    const { outcome } = await refreshPair(early, {
      client: {
        clientId: application.clientId,
        secretHash: hashSecret(application.clientSecret),
        address: '192.0.2.1',
      },
      refreshHash: hashSecret(pair.refresh_token),
      scopes: null,
      accessHash: hashSecret(makeSecret('access')),
      nextRefreshHash: hashSecret(makeSecret('refresh')),
      sealedSuccessor: Buffer.from('x'),
      accessSeconds: 60,
      refreshSeconds: 60,
      graceSeconds: 300,
    })
    await early.query('rollback')
    early.release()
    expect(outcome).toBe('invalid_grant')
  })

  it('find a live token by its hash’s index, whatever kind it is of', async () => {
    const client = await t.db.connect()
    await client.query('begin')
    await client.query('set local enable_seqscan = off')
    const { rows } = await client.query(
      'explain (format json) select account_id from live_token where token_hash = $1',
      [hashSecret('x')],
    )
    await client.query('rollback')
    client.release()
    const plan = JSON.stringify(rows)
    expect(plan).toContain('token_pair_access_hash_key')
    expect(plan).toContain('personal_token_token_hash_key')
  })
})
