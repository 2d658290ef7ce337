import { beforeAll, describe, expect, it } from 'vitest'
import { kindOfSecret } from '../../src/domain/secrets.ts'
import { aGroup, aRepository } from '../support/actors.ts'
import { useCommands } from '../support/commands.ts'

describe('svc deploy-token', () => {
  const svc = useCommands()
  let path: string
  beforeAll(async () => {
    path = (await aRepository(svc.db, { group: await aGroup(svc.db, 'acme') })).path
  })

  it('creates, lists and revokes tokens of a group', async () => {
    const made = await svc.json(
      'deploy-token',
      'create',
      'acme',
      '--name',
      'ci',
      '--right',
      'publish',
      '--repository',
      path,
    )
    expect(made).toMatchObject({
      name: 'ci',
      group: 'acme',
      right: 'publish',
      expires_at: expect.any(String),
    })
    expect(kindOfSecret(made['token'] ?? '')).toBe('deploy')
    const { items } = await svc.json<{ items: object[] }>('deploy-token', 'list', 'acme')
    expect(items).toMatchObject([
      {
        group: 'acme',
        name: 'ci',
        right: 'publish',
        repositories: [path],
        made_by: null,
        last_used_at: null,
      },
    ])
    expect(await svc.json('deploy-token', 'revoke', 'acme', '--name', 'ci', '--force')).toEqual({
      group: 'acme',
      name: 'ci',
    })
    expect(await svc.json('deploy-token', 'list')).toEqual({ items: [], next: null })
  })

  it('prints the error in one line', async () => {
    expect(await svc.fail('deploy-token', 'create', 'nobody', '--name', 'x')).toContain(
      'There is no group "nobody"',
    )
    expect(
      await svc.fail('deploy-token', 'create', 'acme', '--name', 'x', '--repository', 'other/php'),
    ).toContain('other/php is not a repository of acme')
    expect(await svc.fail('deploy-token', 'revoke', 'acme', '--name', 'x', '--force')).toContain(
      'acme has no deploy token "x"',
    )
  })
})
