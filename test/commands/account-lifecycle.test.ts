import { describe, expect, it } from 'vitest'
import { findCredentials } from '../../src/accounts/accounts.ts'
import { isPassword } from '../../src/accounts/passwords.ts'
import { findSession, insertSession } from '../../src/accounts/sessions.ts'
import { rememberOrigin } from '../../src/accounts/sign-in-origins.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import { insertEvent } from '../../src/events/events.ts'
import { listRepositoryEvents } from '../../src/events/registry-events.ts'
import { findRepositoryByPath } from '../../src/groups/repositories.ts'
import { anIdentity, aStoredPasskey, removePassword } from '../support/account-rows.ts'
import { aName, anAccount, anAdminToken, aPersonalToken } from '../support/actors.ts'
import { useCommands } from '../support/commands.ts'
import { eventsOf } from '../support/event-rows.ts'
import { anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { countRows } from '../support/rows.ts'
import { liveTokenOf } from '../support/token-rows.ts'
import { deleteAndReserve, endReservations, setUsername } from '../support/username-rows.ts'

const svc = useCommands()

/** An account with a session and a token. */
async function aPerson() {
  const account = await anAccount(svc.db)
  const token = await aPersonalToken(svc.db, account, { name: 'laptop' })
  const session = await aSession(account.username)
  const works = async () => ({
    token: (await liveTokenOf(svc.db, token)) !== undefined,
    session: (await findSession(svc.db, session)) !== null,
  })
  return { ...account, works }
}

async function aSession(username: string): Promise<string> {
  const credentials = await findCredentials(svc.db, username)
  const id = credentials && (await insertSession(svc.db, operator, credentials, { network: '192.0.2.0/24' }))
  if (!id) throw new Error('no session')
  return id
}

describe('svc account disable and enable', () => {
  it('stops sessions and tokens at once, and brings back the tokens only', async () => {
    const { username, works } = await aPerson()
    expect(await works()).toEqual({ token: true, session: true })
    expect(await svc.json('account', 'disable', username)).toEqual({ username, disabled: true })
    expect(await works()).toEqual({ token: false, session: false })
    expect(await findCredentials(svc.db, username)).toBeNull()
    expect(await svc.json('account', 'show', username)).toMatchObject({
      disabled_at: expect.any(String),
      sessions: 0,
    })
    expect(await svc.json('account', 'enable', username)).toEqual({ username, disabled: false })
    expect(await works()).toEqual({ token: true, session: false })
  })
})

describe('svc account revoke-all', () => {
  it('revokes the tokens, and leaves the sessions', async () => {
    const { username, works } = await aPerson()
    const revoked = { username, tokens: 1, applications: 0 }
    expect(await svc.json('account', 'revoke-all', username, '--force')).toEqual(revoked)
    expect(await works()).toEqual({ token: false, session: true })
    expect(await svc.json('account', 'revoke-all', username, '--force')).toEqual({ ...revoked, tokens: 0 })
  })
})

describe('svc account withdraw', () => {
  it('withdraws one application, leaves the others, and writes the same event as the page', async () => {
    const { id, username, works } = await aPerson()
    const [first, second] = [await anApplication(svc.db), await anApplication(svc.db)]
    for (const application of [first, second]) await anAuthorization(svc.db, { id }, application)
    const clients = { applications: [second.clientId, first.clientId] }
    expect(await svc.json('account', 'show', username)).toMatchObject(clients)

    const withdrawn = { username, client_id: first.clientId }
    expect(await svc.json('account', 'withdraw', username, first.clientId, '--force')).toEqual(withdrawn)
    expect(await svc.json('account', 'show', username)).toMatchObject({ applications: [second.clientId] })
    expect(await works()).toEqual({ token: true, session: true })
    const { items } = await svc.json<{ items: object[] }>(
      ...['event', 'list', '--account', username, '--action', 'authorization-withdrawn'],
    )
    expect(items).toEqual([expect.objectContaining({ client_id: first.clientId, via: 'command' })])
    expect(await svc.fail('account', 'withdraw', username, first.clientId)).toBe(
      `svc: ${username} has not authorized an application "${first.clientId}".`,
    )
  })
})

describe('svc account withdraw --grant', () => {
  it('ends one grant of an application, which svc account show lists', async () => {
    const { id, username } = await aPerson()
    const [first, second] = [await anApplication(svc.db), await anApplication(svc.db)]
    const [one, other] = [
      await anAuthorization(svc.db, { id }, first),
      await anAuthorization(svc.db, { id }, second),
    ]
    const { grants } = await svc.json<{ grants: object[] }>('account', 'show', username)
    const described = { kind: 'access', device_ip: null, last_used_at: null, granted_at: expect.any(String) }
    expect(grants).toEqual([one, other].map((grant) => ({ ...described, id: Number(grant.id) })))
    expect((await svc.run('account', 'show', username)).stdout).toContain(
      `${one.id} (access of ${first.clientId})`,
    )
    for (const wrong of [other.id, 'x'])
      expect(await svc.fail('account', 'withdraw', username, first.clientId, '--grant', wrong)).toBe(
        `svc: ${username} has no grant "${wrong}" of ${first.clientId}.`,
      )
    await svc.run('account', 'withdraw', username, first.clientId, '--grant', one.id, '--force')
    expect(await svc.json('account', 'show', username)).toMatchObject({ applications: [second.clientId] })
  })
})

describe('svc account remove-passkey', () => {
  it('removes one passkey, but not the only way to sign in', async () => {
    const { id, username } = await aPerson()
    const laptop = Number(await aStoredPasskey(svc.db, { id }, { name: 'Laptop', canSignIn: true }))
    const phone = Number(await aStoredPasskey(svc.db, { id }, { name: 'Old phone', canSignIn: true }))
    await removePassword(svc.db, { id })
    const described = (passkey: number, name: string) => ({
      id: passkey,
      name,
      created_at: expect.any(String),
      last_used_at: null,
    })
    expect(await svc.json('account', 'show', username)).toMatchObject({
      passkeys: [described(laptop, 'Laptop'), described(phone, 'Old phone')],
    })
    const { stdout } = await svc.run('account', 'show', username)
    expect(stdout).toContain(`${laptop} (Laptop) ${phone} (Old phone)`)

    const removed = { username, passkey: phone }
    expect(await svc.json('account', 'remove-passkey', username, String(phone), '--force')).toEqual(removed)
    expect(await svc.fail('account', 'remove-passkey', username, String(phone))).toContain('has no passkey')
    expect(await svc.fail('account', 'remove-passkey', username, String(laptop), '--force')).toContain(
      'is the only way',
    )
    expect(await svc.fail('account', 'remove-passkey', username, 'Laptop')).toContain('by its number')
    expect(await svc.json('account', 'show', username)).toMatchObject({ passkeys: [{ id: laptop }] })
    const events = ['event', 'list', '--account', username, '--action', 'second-factor-removed']
    expect(await svc.json(...events)).toMatchObject({ items: [{ via: 'command' }] })
  })
})

describe('svc account set-password, set-email, rename and set-admin', () => {
  it('change the account, and a new password ends all sessions', async () => {
    const { id, username, works } = await aPerson()
    await rememberOrigin(svc.db, id, [hashSecret('network'), hashSecret('device')])
    const { password = '' } = await svc.json('account', 'set-password', username)
    expect(await countRows(svc.db, 'sign_in_origin', { accountId: id })).toBe(0)
    const credentials = await findCredentials(svc.db, username)
    expect(await isPassword(password, credentials?.passwordHash ?? '')).toBe(true)
    expect(await works()).toEqual({ token: true, session: false })

    await Promise.all([
      svc.json('account', 'set-email', username, 'ann@example.com'),
      svc.json('account', 'set-admin', username, 'on'),
    ])
    const renamed = aName('renamed')
    expect(await svc.json('account', 'rename', username, renamed)).toEqual({ username: renamed })
    expect(await svc.json('account', 'show', renamed)).toEqual({
      email_verified_at: null,
      authenticator_app: false,
      grants: [],
      passkeys: [],
      recovery_codes: 0,
      applications: [],
      username: renamed,
      name: '',
      email: 'ann@example.com',
      admin: true,
      groups: [],
      identities: [],
      sessions: 0,
      tokens: 1,
      created_at: expect.any(String),
      last_seen_at: null,
      disabled_at: null,
    })
    const tokens = async () => (await svc.json('account', 'show', renamed))['tokens']
    await anAdminToken(svc.db, { id }, { name: 'managing', scopes: ['group-manage:rw'] })
    expect(await tokens()).toBe(2)
    expect(await svc.json('account', 'set-admin', renamed, 'off')).toEqual({
      username: renamed,
      admin: false,
    })
    // The admin token ended.
    expect(await tokens()).toBe(1)
    expect((await svc.run('account', 'set-admin', renamed, 'on')).stdout).toBe(
      `${renamed} is a site administrator.\n`,
    )
    await Promise.all([
      svc.json('account', 'set-email', renamed, 'none'),
      svc.json('account', 'set-admin', renamed, 'off'),
    ])
    expect(await svc.json('account', 'show', renamed)).toMatchObject({ email: null, admin: false })
    expect((await svc.run('account', 'show', renamed)).stdout).toMatch(/^email +-$/m)
  })

  it('print the error in one line', async () => {
    const { username } = await anAccount(svc.db)
    const messages = await Promise.all([
      svc.fail('account', 'set-password', username, '--password', 'short'),
      svc.fail('account', 'set-email', username, 'nowhere'),
      svc.fail('account', 'rename', username, 'No'),
      svc.fail('account', 'rename', 'nobody', 'x'),
    ])
    expect(messages).toEqual([
      expect.stringContaining('at least 12'),
      expect.stringContaining('Enter a valid email address'),
      expect.stringContaining('A username has at most'),
      'svc: There is no account "nobody".',
    ])
  })
})

describe('svc account, session and token list', () => {
  it('list in parts', async () => {
    const { username } = await aPerson()
    await aSession(username)
    type Listed = { items: Record<string, unknown>[]; next: string | null }
    const first = await svc.json<Listed>('account', 'list', '--limit', '1')
    expect([first.items.length, first.next]).toEqual([1, first.items[0]?.['username']])
    const second = await svc.json<Listed>('account', 'list', '--limit', '1', '--after', first.next ?? '')
    expect(second.items[0]?.['username']).not.toBe(first.items[0]?.['username'])

    const inState = async (state: string) =>
      (await svc.json<Listed>('account', 'list', '--state', state, '--search', username)).items.length
    expect([await inState('without-second-factor'), await inState('disabled')]).toEqual([1, 0])

    const sessions = await svc.json<Listed>('session', 'list', username, '--limit', '1')
    expect(sessions.items).toEqual([
      {
        session: sessions.next,
        username,
        network: '192.0.2.0/24',
        last_network: '192.0.2.0/24',
        user_agent: null,
        created_at: expect.any(String),
        last_seen_at: expect.any(String),
        expires_at: expect.any(String),
      },
    ])
    const key = sessions.next ?? ''
    expect(await svc.json('session', 'revoke', username, key.slice(0, 16))).toEqual({ username, revoked: 1 })
    expect(await svc.fail('session', 'revoke', username, key)).toContain('has no session')
    expect(await svc.fail('session', 'revoke', username, 'ab')).toContain('16 to 64 hexadecimal digits')
    expect(await svc.fail('session', 'revoke', username)).toContain('Pass the session, or use --all.')
    expect(await svc.json('session', 'revoke', username, '--all')).toEqual({ username, revoked: 1 })

    expect((await svc.json<Listed>('token', 'list', username)).items).toEqual([
      expect.objectContaining({ username, name: 'laptop', scopes: ['registry-package:rw'], expired: false }),
    ])
    const all = await svc.json<Listed>('token', 'list', '--limit', '1')
    expect(all.items.length).toBe(1)
    const rest = await svc.json<Listed>('token', 'list', '--after', all.next ?? '')
    expect(rest.items).not.toContainEqual(all.items[0])
  })
})

describe('svc account delete', () => {
  it('refuses while groups would lose their only admin, and names them, unless an option says what to do', async () => {
    const owner = await aPerson()
    const heir = await aPerson()
    const [group, open] = [aName('only'), aName('open')]
    for (const name of [group, open]) await svc.json('group', 'create', name, '--owner', owner.username)
    await svc.json('repository', 'create', `${group}/php`)
    await svc.json('member', 'set', open, heir.username, 'admin')
    const message = `${owner.username} is the only admin of ${group}: use --groups-to <username> or --leave-groups.`
    expect(await svc.fail('account', 'delete', owner.username, '--force')).toBe(`svc: ${message}`)
    expect(await svc.fail('account', 'delete', owner.username, '--groups-to', owner.username)).toContain(
      'another',
    )

    await svc.json('account', 'disable', heir.username)
    expect(await svc.fail('account', 'delete', owner.username, '--groups-to', heir.username)).toContain(
      `There is no enabled account "${heir.username}".`,
    )
    await svc.json('account', 'enable', heir.username)

    const words = ['account', 'delete', owner.username, '--groups-to', heir.username, '--force']
    expect(await svc.json(...words)).toEqual({ username: owner.username, groups: [group] })
    expect(await owner.works()).toEqual({ token: false, session: false })
    expect((await svc.json<{ items: unknown[] }>('member', 'list', group)).items).toEqual([
      { username: heir.username, name: '', role: 'admin' },
    ])
    const repository = await findRepositoryByPath(svc.db, `${group}/php`)
    const [event] = await listRepositoryEvents(svc.db, repository?.id ?? '', { after: null, limit: 1 })
    expect(event).toMatchObject({
      action: 'set-group-member',
      details: { username: heir.username, role: 'admin' },
    })

    await svc.json('account', 'delete', heir.username, '--leave-groups', '--force')
    expect((await svc.json<{ items: unknown[] }>('member', 'list', group)).items).toEqual([])
  })

  it('keeps the username for 90 days, and the events under the name of a deleted account', async () => {
    const { id, username } = await aPerson()
    const group = aName('told')
    await svc.json('group', 'create', group, '--owner', (await anAccount(svc.db)).username)
    const repository = await svc.json('repository', 'create', `${group}/php`)
    expect(repository).toHaveProperty('path')
    const { id: repositoryId = '' } = (await findRepositoryByPath(svc.db, `${group}/php`)) ?? {}
    await insertEvent(svc.db, { ...operator, accountId: id }, { repositoryId, action: 'publish' })
    await svc.json('account', 'delete', username, '--force')
    const [event] = await listRepositoryEvents(svc.db, repositoryId, { after: null, limit: 1 })
    expect(event?.actor).toBe('deleted account')

    const reserved =
      'This username belonged to another account, which was renamed or deleted less than 90 days ago. Choose another.'
    expect(await svc.fail('account', 'create', username)).toBe(`svc: ${reserved}`)
    const other = await anAccount(svc.db)
    expect(await svc.fail('account', 'rename', other.username, username)).toBe(`svc: ${reserved}`)
    await endReservations(svc.db)
    expect(await svc.json('account', 'create', username)).toHaveProperty('password')
  })

  it('keeps the former username of a renamed account for it, and gives it to another one with --force', async () => {
    const [person, other] = [await anAccount(svc.db), await anAccount(svc.db)]
    const second = aName('second')
    await svc.json('account', 'rename', person.username, second)
    const reserved =
      'This username belonged to another account, which was renamed or deleted less than 90 days ago. Choose another.'
    expect(await svc.fail('account', 'rename', other.username, person.username)).toBe(`svc: ${reserved}`)
    await svc.json('account', 'rename', second, person.username)
    expect(await svc.fail('account', 'rename', other.username, second)).toBe(`svc: ${reserved}`)
    expect(await svc.json('account', 'rename', other.username, second, '--force')).toEqual({
      username: second,
    })
  })

  it('reserves the username of a deleted account for nobody, also when another one had it long before', async () => {
    const former = await anAccount(svc.db)
    await svc.json('account', 'rename', former.username, aName('second'))
    await endReservations(svc.db, former.username)
    const later = await anAccount(svc.db, { username: former.username })
    await svc.json('account', 'delete', later.username, '--force')
    const back = setUsername(svc.db, former, former.username)
    await expect(back).rejects.toMatchObject({ constraint: 'username_is_reserved' })
  })

  it('reserves the 10 latest usernames of an account', async () => {
    const { id, username } = await anAccount(svc.db)
    const names = Array.from({ length: 12 }, () => aName('next'))
    for (const name of names) await setUsername(svc.db, { id }, name)
    for (const name of names.slice(1, 11)) {
      const reserved = { constraint: 'username_is_reserved' }
      await expect(anAccount(svc.db, { username: name })).rejects.toMatchObject(reserved)
    }
    for (const free of [username, ...names.slice(0, 1)]) await anAccount(svc.db, { username: free })
  })

  it('does not let another account take the username of one that is renamed at the same time', async () => {
    for (let round = 0; round < 20; round += 1) {
      const { id, username } = await anAccount(svc.db)
      const rename = setUsername(svc.db, { id }, aName('renamed'))
      const [, taken] = await Promise.allSettled([rename, anAccount(svc.db, { username })])
      expect(taken.status).toBe('rejected')
    }
  })

  it('does not let another account take the username during the deletion', async () => {
    for (let round = 0; round < 20; round += 1) {
      const { username } = await anAccount(svc.db)
      const remove = deleteAndReserve(svc.db, username)
      const [, taken] = await Promise.allSettled([remove, anAccount(svc.db, { username })])
      expect(taken.status).toBe('rejected')
    }
  })
})

describe('svc account show and unlink', () => {
  it('list the identities of sign-in providers, and remove one', async () => {
    const { id, username } = await anAccount(svc.db)
    const person = { issuer: 'https://id.acme.example', subject: username, email: 'ann@acme.example' }
    await anIdentity(svc.db, { id }, { ...person, provider: 'acme' })
    expect(await svc.json('account', 'show', username)).toMatchObject({
      identities: [
        {
          provider: 'acme',
          issuer: 'https://id.acme.example',
          subject: username,
          email: 'ann@acme.example',
          linked_at: expect.any(String),
          last_used_at: null,
        },
      ],
    })
    expect(await svc.json('account', 'unlink', username, 'acme')).toEqual({ username, provider: 'acme' })
    expect(await svc.json('account', 'show', username)).toMatchObject({ identities: [] })
    const events = await eventsOf(svc.db, { accountId: id }, ['action', 'via'])
    expect(events.at(-1)).toEqual({ action: 'identity-unlinked', via: 'command' })
  })
})
