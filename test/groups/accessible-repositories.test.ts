import { beforeAll, describe, expect, it } from 'vitest'
import {
  decideAccess,
  fullCredential,
  type ResourceScope,
  type Role,
  roles,
  type Visibility,
  visibilities,
} from '../../src/domain/permissions.ts'
import { allScopes, covers, coversAll } from '../../src/domain/scopes.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import {
  accountReader,
  isGroupVisible,
  listAccessibleGroups,
  listAccessibleRepositories,
  listNamedRepositories,
  listRepositoriesOfGroup,
  type RepositoryReader,
} from '../../src/groups/accessible-repositories.ts'
import { findVisibleRepository } from '../../src/groups/repositories.ts'
import { readPicker } from '../../src/groups/repository-choices.ts'
import {
  approveAuthorizationRequest,
  insertAuthorizationRequest,
} from '../../src/oauth/authorization-requests.ts'
import { renameTokenHolder } from '../../src/web/api/token-holders.ts'
import {
  type AccountActor,
  aGroup,
  aGroupMember,
  aMember,
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
} from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'
import { listPaths } from '../support/group-rows.ts'
import { type ApplicationActor, anApplication } from '../support/oauth-actors.ts'
import { listGrantedIds } from '../support/oauth-rows.ts'
import { coversInSql } from '../support/sql-rules.ts'

const t = useDatabase()
let application: ApplicationActor | undefined
const all = { after: null, limit: 100 }

interface Case {
  groupRole: Role | null
  repositoryRole: Role | null
  isAdmin: boolean
  visibility: Visibility
}

const nothingOrRole = [null, ...roles]
const cases: Case[] = visibilities.flatMap((visibility) => [
  ...nothingOrRole.flatMap((groupRole) =>
    nothingOrRole.map((repositoryRole) => ({ groupRole, repositoryRole, isAdmin: false, visibility })),
  ),
  { groupRole: null, repositoryRole: null, isAdmin: true, visibility },
])

function roleOf({ groupRole, repositoryRole, isAdmin }: Case): Role | null {
  const strength = Math.max(
    ...[groupRole, repositoryRole].map((role) => (role ? roles.indexOf(role) : -1)),
    isAdmin ? 2 : -1,
  )
  return roles[strength] ?? null
}

describe.each(cases)('the SQL of the permission rule, for %j', (one) => {
  let account: AccountActor
  let repository: Awaited<ReturnType<typeof aRepository>>
  let readers: [string, RepositoryReader][]
  const role = roleOf(one)

  beforeAll(async () => {
    repository = await aRepository(t.db, { visibility: one.visibility })
    const other = await aRepository(t.db)
    account = await anAccount(t.db, { isAdmin: one.isAdmin })
    if (one.groupRole) await aGroupMember(t.db, account, repository.group, one.groupRole)
    if (one.repositoryRole) await aMember(t.db, account, repository, one.repositoryRole)
    const reader = (
      resourceScope: ResourceScope,
      ids: string[] = [],
      isSiteAdmin = true,
    ): RepositoryReader => ({
      accountId: account.id,
      resourceScope,
      repositoryIds: ids,
      deploy: null,
      isSiteAdmin,
    })
    readers = [
      ['all', reader('all')],
      ['public', reader('public')],
      ['all, with an id left over', reader('all', [other.id])],
      ['this one', reader('specified', [repository.id])],
      ['this one and another', reader('specified', [other.id, repository.id])],
      ['another one', reader('specified', [other.id])],
      ['none', reader('specified')],
      ['all, as a member', reader('all', [], false)],
      ['this one, as a member', reader('specified', [repository.id], false)],
    ]
  })

  it('agrees with decideAccess(), for every resource scope', async () => {
    const group = repository.group.name
    for (const [what, reader] of readers) {
      const isAdmin = one.isAdmin && reader.isSiteAdmin
      const role = roleOf({ ...one, isAdmin })
      const held = { id: repository.id, visibility: one.visibility, role }
      const token = { kind: 'personal' as const, scopes: ['repo-basic-info:r'], ...reader }
      const verdict = decideAccess(token, held, 'describe')
      const isListed = role !== null && verdict === 'allowed'
      const hasThis = (found: { path: string; role: Role | null }[]) =>
        found.filter(({ path }) => path === repository.path).map((each) => each.role)

      const name = repository.path.split('/')[1] ?? ''
      const listed = await listAccessibleRepositories(t.db, reader, { ...all, search: name })
      expect([what, hasThis(listed)]).toEqual([what, isListed ? [role] : []])
      const ofGroup = await listRepositoriesOfGroup(t.db, reader, group, all)
      expect([what, hasThis(ofGroup)]).toEqual([what, verdict === 'hidden' ? [] : [role]])

      const isMember = one.groupRole !== null || isAdmin
      const isGroupListed = isListed || (reader.resourceScope === 'all' && isMember)
      const groups = await listAccessibleGroups(t.db, reader, {
        after: `${group.slice(0, -1)}`,
        limit: 1000,
      })
      expect([what, groups.some((each) => each.name === group)]).toEqual([what, isGroupListed])
      const isSeen = await isGroupVisible(t.db, reader, group)
      expect([what, isSeen]).toEqual([what, isGroupListed || one.visibility === 'public'])
    }
  })

  it('agrees with decideAccess(), for a signed-in account', async () => {
    const [group = '', name = ''] = repository.path.split('/')
    const session = fullCredential('session', one.isAdmin)
    const isVisible =
      decideAccess(session, { id: repository.id, visibility: one.visibility, role }, 'describe') !== 'hidden'
    const visible = await findVisibleRepository(t.db, { group, name }, account.id)
    expect(visible?.role).toBe(isVisible ? role : undefined)
    const anybody = await findVisibleRepository(t.db, { group, name }, null)
    expect(anybody !== null).toBe(one.visibility === 'public')

    // A token for chosen repositories reaches only those of a member.
    const ownRole = roleOf({ ...one, isAdmin: false })
    const named = await listNamedRepositories(t.db, account.id, [
      repository.path,
      repository.path,
      'x/y',
      `${repository.path}/z`,
    ])
    expect(named.map((each) => [each.path, each.role])).toEqual(ownRole ? [[repository.path, ownRole]] : [])
    for (const chosen of [[], [repository.path]]) {
      const { choices } = await readPicker(t.db, account.id, { search: name, chosen })
      expect(choices.map(({ path, isChosen }) => [path, isChosen])).toEqual(
        ownRole ? [[repository.path, chosen.length > 0]] : [],
      )
    }
  })
})

describe.each(visibilities)(
  'the SQL of the permission rule, for deploy tokens and a %s repository',
  (visibility) => {
    it.each(['guest', 'developer'] as const)('agrees with decideAccess(), for a %s', async (role) => {
      const repository = await aRepository(t.db, { visibility })
      const sister = await aRepository(t.db, { group: repository.group })
      const elsewhere = await aRepository(t.db, { visibility })
      const reader = (own: { id: string }, ids: string[] | 'all'): RepositoryReader => ({
        accountId: null,
        resourceScope: ids === 'all' ? 'all' : 'specified',
        repositoryIds: ids === 'all' ? [] : ids,
        deploy: { groupId: own.id, role },
        isSiteAdmin: false,
      })
      const { group } = repository
      const name = repository.path.split('/')[1] ?? ''
      const readers: [string, RepositoryReader, Role | null][] = [
        ['the group', reader(group, 'all'), role],
        ['this one', reader(group, [repository.id]), role],
        ['another one of the group', reader(group, [sister.id]), role],
        ['none', reader(group, []), role],
        ['another group', reader(elsewhere.group, 'all'), null],
        ['this one, by another group', reader(elsewhere.group, [repository.id]), null],
      ]
      for (const [what, own, held] of readers) {
        const token = { kind: 'deploy' as const, scopes: ['repo-basic-info:r'], ...own }
        const verdict = decideAccess(token, { id: repository.id, visibility, role: held }, 'describe')
        const isListed = held !== null && verdict === 'allowed'
        const rolesOf = (found: { path: string; role: Role | null }[]) =>
          found.filter(({ path }) => path === repository.path).map((each) => each.role)
        const listed = await listAccessibleRepositories(t.db, own, { ...all, search: name })
        expect([what, rolesOf(listed)]).toEqual([what, isListed ? [held] : []])
        const ofGroup = await listRepositoriesOfGroup(t.db, own, group.name, all)
        expect([what, rolesOf(ofGroup)]).toEqual([what, verdict === 'hidden' ? [] : [held]])
        const groups = await listAccessibleGroups(t.db, own, { after: group.name.slice(0, -1), limit: 1000 })
        const isGroupListed = what !== 'none' && held !== null
        expect([what, groups.some((each) => each.name === group.name)]).toEqual([what, isGroupListed])
        const isSeen = await isGroupVisible(t.db, own, group.name)
        expect([what, isSeen]).toEqual([what, isGroupListed || visibility === 'public'])
      }
    })
  },
)

describe('approving a request', () => {
  it.each(cases)('lets an account choose a repository that it is a member of, for %j', async (one) => {
    const repository = await aRepository(t.db, { visibility: one.visibility })
    const account = await anAccount(t.db, { isAdmin: one.isAdmin })
    if (one.groupRole) await aGroupMember(t.db, account, repository.group, one.groupRole)
    if (one.repositoryRole) await aMember(t.db, account, repository, one.repositoryRole)
    application ??= await anApplication(t.db, { resourceScope: 'specified' })
    const idHash = hashSecret(aName('request'))
    await insertAuthorizationRequest(t.db, idHash, {
      accountId: account.id,
      applicationId: application.id,
      link: '/oauth2/auth',
      redirectUri: application.redirectUri,
      state: null,
      scopes: application.scopes,
      resourceScope: 'specified',
      codeChallenge: null,
      deviceHash: null,
      resources: null,
    })
    const code = { hash: hashSecret(aName('code')), lifetimeSeconds: 60 }
    const decision = await approveAuthorizationRequest(t.db, idHash, account.id, [repository.path], code)
    // An application never has the right of a site administrator.
    const role = roleOf({ ...one, isAdmin: false })
    expect(decision !== null).toBe(role !== null)
    expect(await listGrantedIds(t.db, account)).toEqual(role === null ? [] : [[repository.id]])
  })
})

describe('the SQL of scopes', () => {
  it('agrees with coversAll(), for every pair', async () => {
    for (const granted of allScopes) {
      const verdicts = await coversInSql(t.db, [granted], allScopes)
      for (const [i, asked] of allScopes.entries()) {
        const verdict = verdicts[i]
        expect([granted, asked, verdict]).toEqual([granted, asked, coversAll([granted], [asked])])
      }
    }
  })

  it('lets a token rename its account with the scope that covers it, and no other', async () => {
    const account = await anAccount(t.db)
    for (const scope of allScopes) {
      const token = await aPersonalToken(t.db, account, { scopes: [scope] })
      const renamed = await renameTokenHolder(t.db, hashSecret(token), scope)
      expect([scope, renamed !== null]).toEqual([scope, covers([scope], 'account-profile:rw')])
    }
  })
})

describe('lists of repositories and groups', () => {
  it.each([
    ['a member of the group', false],
    ['a site administrator', true],
  ])('of %s come in parts, in the order of their names, each once', async (_who, isAdmin) => {
    const account = await anAccount(t.db, { isAdmin })
    const groups = await Promise.all(Array.from({ length: 3 }, () => aGroup(t.db)))
    for (const group of groups) {
      if (!isAdmin) await aGroupMember(t.db, account, group, 'guest')
      for (let i = 0; i < 7; i += 1) {
        const repository = await aRepository(t.db, { group })
        if (!isAdmin && i % 2 === 0) await aMember(t.db, account, repository, 'admin')
      }
    }
    const paths: string[] = []
    for (let after: string | null = null; ; ) {
      const part = await listAccessibleRepositories(t.db, accountReader(account.id), { after, limit: 4 })
      paths.push(...part.map(({ path }) => path))
      if (part.length < 4) break
      after = paths.at(-1) ?? null
    }
    expect(paths).toEqual(await listPaths(t.db, isAdmin ? null : groups))
    const names = (
      await listAccessibleGroups(t.db, accountReader(account.id), { after: null, limit: 1000 })
    ).map(({ name }) => name)
    expect(names).toEqual(expect.arrayContaining(groups.map(({ name }) => name)))
    expect(new Set(names).size).toBe(names.length)
  })
})
