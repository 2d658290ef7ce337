import { describe, expect, it } from 'vitest'
import { hashSecret, makeSecret } from '../../src/secrets.ts'
import { useApp } from '../support/app.ts'
import { anAuthorizedApplication } from '../support/token-client.ts'

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
