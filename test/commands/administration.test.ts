import { beforeAll, describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { changeGroupName } from '../../src/groups/group-lifecycle.ts'
import { changeRepository } from '../../src/groups/repositories.ts'
import { anAccount, aRepository } from '../support/actors.ts'
import { useCommands } from '../support/commands.ts'
import { anApplication } from '../support/oauth-actors.ts'

interface List {
  items: Record<string, unknown>[]
  next: string | null
}

describe('the commands of what /admin shows and does', () => {
  const svc = useCommands()
  beforeAll(async () => {
    await anAccount(svc.db, { username: 'ann', displayName: 'Ann Lee', email: 'ann@example.com' })
    await anAccount(svc.db, { username: 'bob' })
    const { id, group } = await aRepository(svc.db, { name: 'php' })
    await changeGroupName(svc.db, operator, group, 'acme')
    await aRepository(svc.db, { group: { ...group, name: 'acme' }, name: 'tools' })
    await changeRepository(svc.db, id, { description: 'Our PHP packages', visibility: null })
  })
  const search = async (noun: string, text: string) =>
    (await svc.json<List>(noun, 'list', '--search', text)).items

  it('find accounts, groups and repositories', async () => {
    expect(await search('account', 'LEE')).toEqual([expect.objectContaining({ username: 'ann' })])
    expect(await search('group', 'CM')).toEqual([expect.objectContaining({ group: 'acme', repositories: 2 })])
    expect(await search('repository', 'our php')).toEqual([
      expect.objectContaining({ path: 'acme/php', packages: 0, members: 0 }),
    ])
    expect(await search('repository', 'acme/too')).toHaveLength(1)
    expect(await search('repository', 'nothing like it')).toEqual([])
  })

  it('list applications by state, show who uses one, and its history', async () => {
    const { clientId } = await anApplication(svc.db, { status: 'pending' })
    const listed = await svc.json<List>('application', 'list', '--state', 'pending')
    expect(listed.items.map(({ client_id }) => client_id)).toEqual([clientId])
    expect((await svc.json<List>('application', 'list', '--state', 'approved')).items).toEqual([])
    expect(await svc.json('application', 'show', clientId)).toMatchObject({ accounts: 0, last_used_at: null })
    await svc.json('application', 'approve', clientId, '--no-migration')
    const { items } = await svc.json<List>('application', 'history', clientId, '--limit', '1')
    expect(items).toEqual([expect.objectContaining({ action: 'application-approved', via: 'command' })])
    expect(await svc.fail('application', 'history', 'nobody')).toContain('no application')
  })

  it('set a display name, show second factors, and export the stored data', async () => {
    expect(await svc.json('account', 'set-name', 'bob', 'Bob Ray')).toEqual({
      username: 'bob',
      name: 'Bob Ray',
    })
    expect(await svc.json('account', 'show', 'bob')).toMatchObject({
      name: 'Bob Ray',
      authenticator_app: false,
      passkeys: [],
      recovery_codes: 0,
      email_verified_at: null,
    })
    expect(await svc.fail('account', 'set-name', 'bob', 'x'.repeat(101))).toContain('100 characters')
    const { stdout } = await svc.run('account', 'export', 'bob')
    expect(JSON.parse(stdout)).toMatchObject({ account: { username: 'bob', name: 'Bob Ray' }, passkeys: [] })
  })

  it('show the state of the system', async () => {
    const system = await svc.json<Record<string, unknown>>('system')
    expect(system).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      database: { embedded: false, migration: expect.stringMatching(/^\d{4}_/) },
      store: { archives: 0, collected_at: null },
      backed_up_at: null,
      accounts: { all: 2 },
      groups: 1,
      repositories: 2,
    })
    expect((await svc.run('system')).stdout).toMatch(
      /, \d+ MB, [\s\S]*Disk {8}[\d.]+ [MGT]B of [\d.]+ [MGT]B free in [\s\S]*\n.*1 group, 2 repositories, 0 packages\n/,
    )
  })
})
