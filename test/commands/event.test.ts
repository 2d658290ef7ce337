import { describe, expect, it } from 'vitest'
import { findResetAccount } from '../../src/accounts/password-resets.ts'
import { anAccount } from '../support/actors.ts'
import { useCommands } from '../support/commands.ts'

const svc = useCommands()

describe('svc event list', () => {
  it('lists what commands did, the latest first, filtered and in parts', async () => {
    const { username } = await anAccount(svc.db)
    await svc.json('account', 'set-admin', username, 'on')
    await svc.json('token', 'create', username, '--name', 'laptop', '--scope', 'registry-package:r')
    const list = (...words: string[]) =>
      svc.json<{ items: Record<string, unknown>[]; next: string | null }>('event', 'list', ...words)
    const first = await list('--account', username, '--limit', '2')
    expect(first.items).toMatchObject([
      { action: 'token-created', account: username, via: 'command', details: { name: 'laptop' } },
      { action: 'admin-granted', account: username, via: 'command' },
    ])
    const rest = await list('--account', username, '--after', String(first.next))
    expect(rest).toMatchObject({ items: [{ action: 'account-created', via: 'command' }], next: null })
    expect((await list('--action', 'admin-granted')).items).toHaveLength(1)
    expect((await list('--ip', '192.0.2.1')).items).toEqual([])
    expect((await list('--actor', username)).items).toEqual([])
    expect(
      (await list('--account', username, '--since', '2001-01-01', '--until', '2100-01-01')).items,
    ).toHaveLength(3)
    expect((await list('--until', '2001-01-01T00:00Z')).items).toEqual([])
    expect((await svc.run('event', 'list', '--limit', '1')).stdout).toMatch(
      /token-created {2}\S+ {2}by command line/,
    )
  })

  it('refuses filters that it cannot use', async () => {
    expect(await svc.fail('event', 'list', '--account', 'nobody')).toContain('There is no account "nobody"')
    expect(await svc.fail('event', 'list', '--action', 'dance')).toContain('sign-in')
    expect(await svc.fail('event', 'list', '--ip', 'nonsense')).toContain('IP address')
    expect(await svc.fail('event', 'list', '--ip', 'fe80::1%eth0')).toContain('It must be an IP address.')
    for (const time of ['yesterday', '2026-02-31', '2026-02-29T10:00Z', '2026-04-31T10:00-05:00']) {
      expect(await svc.fail('event', 'list', '--since', time), time).toContain('It must be a time')
    }
    expect(await svc.fail('event', 'list', '--application', 'nothing1')).toContain(
      'There is no application "nothing1"',
    )
  })
})

describe('svc account reset-link', () => {
  it('prints a link that works once, for an hour', async () => {
    const { id, username } = await anAccount(svc.db)
    const made = await svc.json('account', 'reset-link', username)
    expect(made).toEqual({
      username,
      url: expect.stringMatching(/^https:\/\/svc\.example\.com\/password-reset\?token=[\w-]{43}$/),
      expires_in: 3600,
    })
    const token = new URL(made['url'] ?? '').searchParams.get('token') ?? ''
    expect(await findResetAccount(svc.db, token)).toEqual({ id, username })
    await svc.json('account', 'disable', username)
    expect(await svc.fail('account', 'reset-link', username)).toContain('disabled')
  })
})
