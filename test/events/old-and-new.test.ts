import { describe, expect, it } from 'vitest'
import { deleteAccount } from '../../src/accounts/account-lifecycle.ts'
import { acceptInvitation } from '../../src/accounts/invitation-acceptance.ts'
import { invite } from '../../src/accounts/invite.ts'
import { readConfig } from '../../src/config.ts'
import { operator } from '../../src/domain/principal.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { requireFactorOfMembers } from '../../src/groups/factor-requirement.ts'
import { setRepository } from '../../src/groups/group-lifecycle.ts'
import { changeMember } from '../../src/groups/membership.ts'
import { changeApplication } from '../../src/oauth/application-changes.ts'
import { claimVendorByHand } from '../../src/upstreams/claims.ts'
import { setUpstream } from '../../src/upstreams/configure.ts'
import { aGroup, anAccount, aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { type EventFilter, eventsOf } from '../support/event-rows.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { changeRegistration } from '../support/oauth-rows.ts'
import { anUpstream } from '../support/upstream-rows.ts'

const t = useApp()
const detailsOf = async (filter: EventFilter) =>
  (await eventsOf(t.db, filter, ['details'])).map(({ details }) => details)

describe('the events of a change have the old and the new value', () => {
  it('of a role, and of the role that an accepted invitation gives', async () => {
    const { id: groupId } = await aGroup(t.db)
    const carol = await anAccount(t.db)
    const become = (role: 'guest' | 'developer' | 'none') =>
      changeMember(t.db, operator, { place: { groupId }, account: carol, role })
    for (const role of ['guest', 'guest', 'developer', 'none', 'guest'] as const) await become(role)
    const { url } = await invite(t.db, t.config, operator, {
      email: null,
      target: { groupId, role: 'developer' },
    })
    await acceptInvitation(t.db, operator, url?.split('token=')[1] ?? '', carol)
    const { username } = carol
    expect(await detailsOf({ groupId })).toEqual([
      { username, role: 'guest' },
      { username, role: 'developer', from: { role: 'guest' } },
      { username, from: { role: 'developer' } },
      { username, role: 'guest' },
      { username, role: 'developer', from: { role: 'guest' }, by_invitation: true },
    ])
  })

  it('of the settings of a repository and a group, and there is none when nothing changed', async () => {
    const { id, group } = await aRepository(t.db)
    await setRepository(t.db, operator, id, { visibility: 'private', description: null })
    await setRepository(t.db, operator, id, { visibility: 'public', description: '' })
    for (const isRequired of [false, true, false])
      await requireFactorOfMembers(t.db, operator, group, { isRequired })
    for (const graceDays of [14, 0])
      await requireFactorOfMembers(t.db, operator, group, { isRequired: true, graceDays })
    expect(await detailsOf({ repositoryId: id })).toEqual([
      { visibility: 'public', from: { visibility: 'private' } },
    ])
    expect(await detailsOf({ groupId: group.id })).toEqual([
      { requires_second_factor: true, from: { requires_second_factor: false } },
      { requires_second_factor: false, from: { requires_second_factor: true } },
      {
        requires_second_factor: true,
        second_factor_from: expect.any(String),
        from: { requires_second_factor: false, second_factor_from: null },
      },
      {
        requires_second_factor: true,
        second_factor_from: expect.any(String),
        from: { second_factor_from: expect.any(String) },
      },
    ])
  })

  it('of an upstream and a vendor', async () => {
    const repository = await aRepository(t.db)
    await anUpstream(t.db, repository, { url: 'https://example.com' })
    const change = { repositoryId: repository.id, by: operator }
    await setUpstream(t.db, change, 'public', { mode: 'approved', deny: [] })
    await setUpstream(t.db, change, 'public', { mode: 'approved' })
    const claim = (exceptions: string[]) =>
      claimVendorByHand(t.db, operator, repository.group, { vendor: 'acme', exceptions, force: true })
    await claim([])
    await claim(['acme/open'])
    expect(await detailsOf({ repositoryId: repository.id })).toEqual([
      { upstream: 'public', mode: 'approved', from: { mode: 'automatic' } },
    ])
    expect(await detailsOf({ groupId: repository.group.id })).toEqual([
      { vendor: 'acme', exceptions: [] },
      { vendor: 'acme', exceptions: ['acme/open'], from: { exceptions: [] } },
    ])
  })

  it('of an application, except its logo', async () => {
    const application = await anApplication(t.db, { scopes: ['registry-package:r'] })
    await changeRegistration(t.db, application, { name: 'Other' })
    expect(await detailsOf({ applicationId: application.id, action: 'application-changed' })).toEqual([
      { changed: ['name'], name: 'Other', from: { name: expect.any(String) } },
    ])
  })

  it('of the developer of an application, with usernames and without the name of a deleted account', async () => {
    const config = readConfig({ BASE_URL: 'https://svc.example.com' })
    const { id: applicationId, clientId } = await anApplication(t.db)
    const [first, second] = [await anAccount(t.db), await anAccount(t.db)]
    for (const developer of [first.username, second.username, null]) {
      await changeApplication(t.db, config, operator, clientId, { developer })
    }
    const seen = async () => {
      const filter = { applicationId, actions: ['application-changed'] }
      const events = await listEvents(t.db, filter, { after: null, limit: 10 })
      return events.map(({ details }) => details).toReversed()
    }
    const changed = ['developer']
    expect(await seen()).toEqual([
      { changed, developer: first.username, from: { developer: null } },
      { changed, developer: second.username, from: { developer: first.username } },
      { changed, developer: null, from: { developer: second.username } },
    ])
    await deleteAccount(t.db, operator, first, 'refuse')
    expect((await seen())[0]).toEqual({
      changed,
      developer: 'deleted account',
      from: { developer: null },
    })
  })
})
