import { describe, expect, it } from 'vitest'
import { findCredentials } from '../../src/accounts/accounts.ts'
import { isPassword } from '../../src/accounts/passwords.ts'
import { insertSession } from '../../src/accounts/sessions.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import { storedAccount } from '../support/account-rows.ts'
import { workingSecretHashes } from '../support/application-rows.ts'
import { useCommands } from '../support/commands.ts'
import { countRows } from '../support/rows.ts'
import { liveTokenOf } from '../support/token-rows.ts'
import { endReservations } from '../support/username-rows.ts'

describe('svc demo', () => {
  const svc = useCommands()
  const worksFor = async (secrets: Record<string, string>) => {
    const { username = '', password = '', client_id = '', client_secret = '', token = '' } = secrets
    const credentials = await findCredentials(svc.db, username)
    const hashes = await workingSecretHashes(svc.db, client_id)
    return {
      password: await isPassword(password, credentials?.passwordHash ?? ''),
      secret: hashes.some((hash) => hash.equals(hashSecret(client_secret))),
      token: (await liveTokenOf(svc.db, token)) !== undefined,
    }
  }

  it('says that there is nothing to reset', async () => {
    expect(await svc.fail('demo', '--reset')).toContain('The demo is incomplete')
  })

  it('makes a demo once, and --reset gives it new secrets that replace the old ones', async () => {
    const first = await svc.json('demo')
    expect(await worksFor(first)).toEqual({ password: true, secret: true, token: true })
    expect(await svc.fail('demo')).toContain('svc demo --reset')
    const demo = await storedAccount(svc.db, { username: 'demo' })
    const credentials = { accountId: demo?.id ?? '', passwordHash: demo?.passwordHash ?? '' }
    expect(await insertSession(svc.db, operator, credentials, { network: 'here' })).not.toBeNull()

    const second = await svc.json('demo', '--reset')
    expect(second).toMatchObject({ client_id: first['client_id'], registry_url: first['registry_url'] })
    expect(await worksFor(first)).toEqual({ password: false, secret: false, token: false })
    expect(await worksFor(second)).toEqual({ password: true, secret: true, token: true })
    expect(await countRows(svc.db, 'session')).toBe(0)

    const packages = await svc.json('package', 'list', 'demo/php')
    expect(JSON.stringify(packages)).toMatch(/demo\/clock.*demo\/greeting.*demo\/report/)
    expect(await countRows(svc.db, 'package')).toBe(3)
    expect(await countRows(svc.db, 'advisory')).toBe(1)
    const { stdout } = await svc.run('demo', '--reset')
    expect(stdout).toContain('Open a second terminal')
    expect(stdout).toContain(`-u ${first['client_id']}:svcs_`)
  })

  it.each(['demo-admin', 'demo'])(
    '--reset changes nothing when the account %s is not of the demo',
    async (name) => {
      const passwordOf = async () => (await storedAccount(svc.db, { username: name }))?.passwordHash
      await svc.run('account', 'rename', name, `former-${name}`)
      await endReservations(svc.db)
      await svc.json('account', 'create', name)
      const before = await passwordOf()
      expect(await svc.fail('demo', '--reset')).toContain(`the account ${name} was not created with the demo`)
      expect(await passwordOf()).toBe(before)

      await svc.run('account', 'rename', name, `foreign-${name}`)
      await endReservations(svc.db)
      await svc.run('account', 'rename', `former-${name}`, name)
      await svc.json('demo', '--reset')
      expect(await passwordOf()).not.toBe(before)
    },
  )

  it('--reset adds the administrator to a demo without one, and resets it the next time', async () => {
    await svc.json('account', 'delete', 'demo-admin', '--force')
    await endReservations(svc.db)
    const first = await svc.json('demo', '--reset')
    const second = await svc.json('demo', '--reset')
    expect(first['administrator']).toMatchObject({ username: 'demo-admin', password: expect.any(String) })
    expect(second['administrator']).toMatchObject({ username: 'demo-admin', password: expect.any(String) })
    expect(second['administrator']).not.toEqual(first['administrator'])
  })
})
