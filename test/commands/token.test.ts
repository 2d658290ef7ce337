import { beforeAll, describe, expect, it } from 'vitest'
import { siteScopes } from '../../src/domain/permissions.ts'
import { kindOfSecret } from '../../src/domain/secrets.ts'
import { anAccount, aRepository } from '../support/actors.ts'
import { useCommands } from '../support/commands.ts'
import { liveTokenOf } from '../support/token-rows.ts'

describe('svc token', () => {
  const svc = useCommands()
  let path: string
  beforeAll(async () => {
    await anAccount(svc.db, { username: 'ann' })
    path = (await aRepository(svc.db)).path
  })
  const create = (...words: string[]) => svc.json('token', 'create', 'ann', ...words)
  const live = async (token = '') => (await liveTokenOf(svc.db, token)) ?? null

  it('create makes a token for 90 days for all repositories', async () => {
    const made = await create('--name', 'laptop', '--scope', 'registry-package:rw')
    expect(made).toEqual({ token: expect.any(String), name: 'laptop', expires_at: expect.any(String) })
    expect(kindOfSecret(made['token'] ?? '')).toBe('personal')
    const days = (Date.parse(made['expires_at'] ?? '') - Date.now()) / 86_400_000
    expect(days).toBeCloseTo(90, 1)
    expect(await live(made['token'])).toMatchObject({
      scopes: ['registry-package:rw'],
      resourceScope: 'all',
      repositoryIds: [],
    })
  })

  it('create takes several scopes: one after the other, repeated, and with commas', async () => {
    const scopes = [
      '--scope',
      'repo-code:r',
      'repo-pr:r',
      '--scope',
      'account-email:r,account-profile:r,repo-pr:r',
    ]
    const { token } = await create('--name', 'many', ...scopes)
    expect(await live(token)).toMatchObject({
      scopes: ['repo-code:r', 'repo-pr:r', 'account-email:r', 'account-profile:r'],
    })
  })

  it('create limits a token to repositories, and lets it never expire only on request', async () => {
    const words = ['--scope', 'registry-package:r', '--repository', path, '--expires-in-days', 'never']
    const made = await create('--name', 'limited', ...words)
    expect(made['expires_at']).toBeNull()
    expect(await live(made['token'])).toMatchObject({
      resourceScope: 'specified',
      repositoryIds: [expect.any(String)],
    })
  })

  it('revoke ends it at once', async () => {
    const { token } = await create('--name', 'lost', '--scope', 'repo-code:r')
    expect(await svc.json('token', 'revoke', 'ann', '--name', 'lost', '--force')).toEqual({
      username: 'ann',
      name: 'lost',
    })
    expect(await live(token)).toBeNull()
    expect(await svc.fail('token', 'revoke', 'ann', '--name', 'lost', '--force')).toBe(
      'svc: ann has no token "lost".',
    )
  })

  it('create makes an admin token for a site administrator, who loses it with the role', async () => {
    const root = await anAccount(svc.db, { username: 'root', isAdmin: true })
    const { token } = await svc.json('token', 'create', 'root', '--name', 'ops', '--admin')
    expect(await live(token)).not.toBeNull()
    const { items } = await svc.json('token', 'list', 'root')
    expect(items).toEqual([
      expect.objectContaining({ name: 'ops', admin: true, resource_scope: 'all', scopes: [...siteScopes] }),
    ])
    const narrow = ['--name', 'narrow', '--scope', 'repo-code:r', '--admin', '--resource-scope', 'public']
    expect(await svc.fail('token', 'create', 'root', ...narrow)).toContain(
      'An admin token is for all repositories.',
    )
    await svc.json('account', 'set-admin', root.username, 'off')
    expect(await live(token)).toBeNull()
  })

  it.each([
    ['token create ann --name x --admin', 'only site administrators can have admin tokens'],
    ['token create ann --name x --scope repo-code', 'Write repo-code:r or repo-code:rw.'],
    ['token create ann --name x --scope repo-delete:r', 'Write repo-delete:rw.'],
    ['token create ann --name x --scope all', 'There is no scope "all"'],
    ['token create ann --name x', '--scope'],
    ['token create ann --scope repo-code:r', '--name'],
    ['token create eve --name x --scope repo-code:r', 'There is no account "eve".'],
    [
      'token create ann --name x\ty --scope repo-code:r',
      'A token’s name must not contain control characters.',
    ],
    ['token create ann --name laptop --scope repo-code:r', 'The account already has a token with this name.'],
    [
      'token create ann --name x --scope repo-code:r --resource-scope specified',
      'together with --repository',
    ],
    [
      'token create ann --name x --scope repo-code:r --resource-scope all --repository a/b',
      'together with --repository',
    ],
    ['token create ann --name x --scope repo-code:r --repository no/no', 'There is no repository "no/no".'],
    ['token create ann --name x --scope repo-code:r --expires-in-days 0', 'from 1 to 3650, or never'],
    ['token create ann --name x --scope repo-code:r --expires-in-days 9999', 'from 1 to 3650, or never'],
  ])('refuses svc %s', async (line, message) => {
    expect(await svc.fail(...line.split(' '))).toContain(message)
  })
})
