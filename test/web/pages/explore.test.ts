import { describe, expect, it } from 'vitest'
import { operator } from '../../../src/domain/principal.ts'
import { listGroupsInTheWay } from '../../../src/groups/groups.ts'
import { deleteVersion } from '../../../src/packages/lifecycle/deletion.ts'
import { aGroupMember, aMember, anAccount, aRepository, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { anOlderGroup, requireSecondFactor } from '../../support/group-rows.ts'
import { aPublisher } from '../../support/registry-actors.ts'

const t = useApp()
const explore = async (query = '', cookie = '') =>
  (await t.app.inject({ url: `/explore${query}`, headers: { cookie } })).body.replaceAll('&amp;', '&')

describe('GET /explore', () => {
  it('says that no repository is public', async () => {
    expect(await explore()).toContain('No repository is public. <a href="/login">Sign in</a>')
  })

  it('shows public repositories with their latest releases to everybody, and no private one', async () => {
    const open = await aPublisher(t, { visibility: 'public' })
    await open.push('1.0.0', { name: 'acme/open', manifest: { description: 'Says <hello>' } })
    await open.push('1.1.0', { name: 'acme/open', manifest: { description: 'Says <hello>' } })
    await open.push('1.0.0', { name: 'acme/gone' })
    const gone = { repositoryId: open.repository.id, packageName: 'acme/gone', version: '1.0.0' }
    await deleteVersion(t.db, { ...gone, by: operator, baseUrl: t.config.baseUrl })
    const hidden = await aPublisher(t)
    await hidden.push('1.0.0', { name: 'acme/hidden' })
    for (const cookie of ['', await signIn(t.app, hidden.account)]) {
      const page = await explore('', cookie)
      expect(page).toContain(`href="/${open.repository.path}"`)
      expect(page).toMatch(/acme\/open<\/a> <code>1\.1\.0<\/code>/)
      expect(page).toContain('Says &lt;hello&gt;')
      for (const other of ['<code>1.0.0</code>', 'acme/gone', 'acme/hidden', hidden.repository.path]) {
        expect(page).not.toContain(other)
      }
    }
  })

  it('shows the role of the account, and lists 30 repositories on a page', async () => {
    const account = await anAccount(t.db)
    const { group } = await aRepository(t.db, { visibility: 'public' })
    for (let i = 0; i < 30; i += 1) await aRepository(t.db, { group, visibility: 'public' })
    const mine = await aRepository(t.db, { group, visibility: 'public', name: 'zzz' })
    await aMember(t.db, account, mine, 'developer')
    const cookie = await signIn(t.app, account)
    const first = await explore('', cookie)
    const [, next = ''] = /href="\/explore(\?after=[^"]+)"/.exec(first) ?? []
    const second = await explore(next, cookie)
    const listed = [first, second].map((page) =>
      [...page.matchAll(/class="title">(?:<img [^>]*>)?<a href="\/([^"]+)"/g)].map(([, path]) => path),
    )
    expect(listed.flat()).toEqual(
      [...new Set(listed.flat().map(String))].toSorted((a, b) => (a < b ? -1 : 1)),
    )
    expect(listed[0]).toHaveLength(30)
    expect(listed.flat()).toContain(mine.path)
    expect(second).toContain('<span class="badge">developer</span>')
    expect(second).not.toContain('Recently published')
    expect(await explore('?after=zzzz')).toContain('href="/explore"')
  })

  it('leaves the URL to a group that had the name before, for those who may see it', async () => {
    const group = await anOlderGroup(t.db, 'explore')
    const account = await anAccount(t.db)
    await aGroupMember(t.db, account, group, 'guest')
    expect(await explore('', await signIn(t.app, account))).toContain('This group has no repository yet')
    expect(await explore()).toContain('<h1>Explore</h1>')
    // It can still be changed.
    await requireSecondFactor(t.db, group)
    expect(await listGroupsInTheWay(t.db)).toEqual(['explore'])
  })
})
