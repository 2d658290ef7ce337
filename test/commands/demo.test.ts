import { describe, expect, it } from 'vitest'
import { findCredentials } from '../../src/accounts/accounts.ts'
import { isPassword } from '../../src/accounts/passwords.ts'
import { insertSession } from '../../src/accounts/sessions.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import { useCommands } from '../support/commands.ts'

describe('svc demo', () => {
  const svc = useCommands()
  const worksFor = async (secrets: Record<string, string>) => {
    const { username = '', password = '', client_secret = '', token = '' } = secrets
    const credentials = await findCredentials(svc.db, username)
    const { rows } = await svc.db.query(
      `select exists (select from application_secret where secret_hash = $1 and expires_at > now()) as secret,
              exists (select from live_token where token_hash = $2) as token`,
      [hashSecret(client_secret), hashSecret(token)],
    )
    return { password: await isPassword(password, credentials?.passwordHash ?? ''), ...rows[0] }
  }

  it('says that there is nothing to reset', async () => {
    expect(await svc.fail('demo', '--reset')).toContain('The demo is incomplete')
  })

  it('makes a demo once, and --reset gives it new secrets that replace the old ones', async () => {
    const first = await svc.json('demo')
    expect(await worksFor(first)).toEqual({ password: true, secret: true, token: true })
    expect(await svc.fail('demo')).toContain('svc demo --reset')
    const { rows } = await svc.db.query(
      `select id, password_hash as hash from account where username = 'demo'`,
    )
    const credentials = { accountId: rows[0].id, passwordHash: rows[0].hash }
    expect(await insertSession(svc.db, operator, credentials, { network: 'here' })).not.toBeNull()

    const second = await svc.json('demo', '--reset')
    expect(second).toMatchObject({ client_id: first['client_id'], registry_url: first['registry_url'] })
    expect(await worksFor(first)).toEqual({ password: false, secret: false, token: false })
    expect(await worksFor(second)).toEqual({ password: true, secret: true, token: true })
    expect((await svc.db.query('select from session')).rowCount).toBe(0)

    const { stdout } = await svc.run('demo', '--reset')
    expect(stdout).toContain('Open a second terminal')
    expect(stdout).toContain(`-u ${first['client_id']}:svcs_`)
  })
})
