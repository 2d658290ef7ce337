import { describe, expect, it } from 'vitest'
import { useCommands } from '../support/commands.ts'

describe('svc account invite, svc member invite and svc invitation', () => {
  const svc = useCommands()

  it('make, list and withdraw invitations', async () => {
    await svc.run('account', 'create', 'ann')
    await svc.run('group', 'create', 'acme', '--owner', 'ann')
    const made = await svc.json(
      'member',
      'invite',
      'acme',
      '--role',
      'developer',
      '--email',
      'bob@example.com',
    )
    expect(made).toMatchObject({ email: 'bob@example.com', group: 'acme', role: 'developer' })
    expect(made['url']).toMatch(/^https:\/\/svc\.example\.com\/invitations\?token=[\w-]{43}$/)
    const account = await svc.json('account', 'invite')
    expect(account['url']).toMatch(/token=[\w-]{43}$/)
    const { items } = await svc.json<{ items: object[] }>('invitation', 'list')
    expect(items).toHaveLength(2)
    expect(await svc.json('invitation', 'list', 'acme')).toMatchObject({
      items: [{ id: made['id'], email: 'bob@example.com', invited_by: null, by_mail: false }],
      next: null,
    })
    await svc.json('invitation', 'withdraw', String(made['id']))
    expect(await svc.fail('invitation', 'withdraw', String(made['id']))).toContain('no open invitation')
    expect(await svc.fail('invitation', 'withdraw', 'x')).toContain('must be a number')
    expect(await svc.fail('member', 'invite', 'acme', '--role', 'owner')).toContain('role')
    expect(await svc.fail('account', 'invite', '--email', 'nonsense')).toContain('valid email')
  })
})
