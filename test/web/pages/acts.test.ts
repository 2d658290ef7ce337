import type { LightMyRequestResponse } from 'fastify'
import { beforeAll, describe, expect, it } from 'vitest'
import { makeProgram } from '../../../src/commands/program.ts'
import {
  type Act,
  allActs,
  decideAccess,
  decideOnAccount,
  decideOnGroup,
  decideOnSite,
  fullCredential,
  placeOf,
} from '../../../src/domain/permissions.ts'
import { operator } from '../../../src/domain/principal.ts'
import { allScopes } from '../../../src/domain/scopes.ts'
import { deleteRepository } from '../../../src/groups/group-lifecycle.ts'
import { changeRepository, findRepositoryByPath } from '../../../src/groups/repositories.ts'
import { topicNames } from '../../../src/notifications/topics.ts'
import {
  aGroupMember,
  anAccount,
  anAdminToken,
  aPersonalToken,
  aRepository,
  csrfTokenIn,
  groupOf,
  post,
  signIn,
} from '../../support/actors.ts'
import { callApi, type Method } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { anAccessToken, anApplication, anAuthorization } from '../../support/oauth-actors.ts'
import { aProject } from '../../support/project-rows.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { dropRows } from '../../support/rows.ts'
import { aStoredFactor, setProofAges } from '../../support/session-rows.ts'

/*
 * Pages, API and commands have one rule for each act. This file states it independently of src/domain/permissions.ts, and
 * does each act at each of the three. Most requests are about something that does not exist, so that nothing changes.
 */
const t = useApp({ BASE_URL: 'http://localhost' })

/**
 * Who does an act. A page asks for a recent proof of identity where it says so.
 * - `anyone`: every token whose scopes allow it;
 * - `deletes`: the same, and a page needs a proof;
 * - `people`: no application;
 * - `opens`: no application, and a page needs a proof;
 * - `site`: site administrators, of their tokens only admin tokens, and a page needs a proof;
 * - `administrator`: site administrators without any token, and a page needs a proof;
 * - `factor`: no token, and a page needs a second factor.
 */
type Kind = 'anyone' | 'deletes' | 'people' | 'opens' | 'site' | 'administrator' | 'factor'

interface Twin {
  kind: Kind
  /** Null when only pages and commands do it. */
  api: [Method, string, object?] | null
  /** Null when only the API and commands do it. */
  page: ['GET' | 'POST', string, Record<string, string>?] | null
  /** Null when it is about the person who asks, who has no account on the command line. */
  command: string | null
}

const R = '/repositories/{group}/{name}'
const G = '/groups/{group}'
const P = '/{group}/{name}/packages/acme/lib/-'

const allChoices = {
  ...Object.fromEntries(topicNames.map((topic) => [topic, 'off'])),
  digest_hour: '7',
}
const twins: Record<Act, Twin> = {
  describe: { kind: 'anyone', api: ['GET', R], page: ['GET', '/{group}/{name}'], command: 'repository list' },
  pull: {
    kind: 'anyone',
    api: ['GET', `${R}/packages`],
    page: ['GET', '/{group}/{name}/packages/acme/lib'],
    command: 'package list',
  },
  push: {
    kind: 'anyone',
    api: ['POST', `${R}/packages/acme/none/advisories`, { title: 'x', affected_versions: '*' }],
    page: ['POST', `${P}/versions/quarantine`, { version: '9.9.9' }],
    command: 'version quarantine',
  },
  stage: {
    kind: 'anyone',
    api: ['GET', `${R}/stages`],
    page: ['GET', '/{group}/{name}/-/stages'],
    command: 'stage list',
  },
  decideStage: {
    kind: 'factor',
    api: null,
    page: ['POST', '/{group}/{name}/-/stages/{stage}/release'],
    command: 'stage release',
  },
  endReviews: {
    kind: 'opens',
    api: ['PATCH', R, { release: 'direct' }],
    page: [
      'POST',
      '/{group}/{name}/-/settings',
      { visibility: 'private', description: '', release: 'direct' },
    ],
    command: 'repository set',
  },
  deletePackage: {
    kind: 'deletes',
    api: ['DELETE', `${R}/packages/acme/none`],
    page: ['POST', `${P}/versions/delete`, { version: '9.9.9' }],
    command: 'version purge',
  },
  restorePackage: {
    kind: 'anyone',
    api: ['POST', `${R}/packages/acme/none/restore`],
    page: ['POST', `${P}/versions/restore`, { version: '9.9.9' }],
    command: 'version restore',
  },
  readSettings: {
    kind: 'anyone',
    api: ['GET', `${R}/members`],
    page: ['GET', '/{group}/{name}/-/members'],
    command: 'member list',
  },
  manage: {
    kind: 'anyone',
    api: ['PATCH', R, {}],
    page: ['POST', '/{group}/{name}/-/settings/rename', { name: 'Not Good' }],
    command: 'repository set',
  },
  appointAdmin: {
    kind: 'opens',
    api: ['PUT', `${R}/members/nobody-at-all`, { role: 'admin' }],
    page: ['POST', '/{group}/{name}/-/members', { username: 'nobody-at-all', role: 'admin' }],
    command: 'member set',
  },
  unbindNames: {
    kind: 'opens',
    api: ['DELETE', `${R}/upstreams/none?release=true`],
    page: ['POST', '/{group}/{name}/-/upstreams/remove', { name: 'none', release: 'yes' }],
    command: 'upstream remove',
  },
  trustPublisher: {
    kind: 'opens',
    api: ['POST', `${R}/trusted-publishers`, {}],
    page: ['POST', '/{group}/{name}/-/trusted-publishers/new'],
    command: 'trusted-publisher add',
  },
  addSource: {
    kind: 'opens',
    api: ['POST', `${R}/sources`, {}],
    page: ['POST', '/{group}/{name}/-/sources/new'],
    command: 'source add',
  },
  addWebhook: {
    kind: 'opens',
    api: ['POST', `${R}/webhooks`, {}],
    page: ['POST', '/{group}/{name}/-/webhooks/new'],
    command: 'webhook add',
  },
  setRetention: {
    kind: 'opens',
    api: ['PUT', `${R}/retention`, { keep_development: 5, deleted_archives_days: null }],
    page: ['POST', '/{group}/{name}/-/settings/retention'],
    command: 'retention set',
  },
  limitPublishers: {
    kind: 'opens',
    api: ['PATCH', `${R}/packages/acme/lib`, { only_trusted_publishers: false }],
    page: ['POST', `${P}/versions/end-only-trusted-publishers`],
    command: 'package set',
  },
  removeUpstream: {
    kind: 'deletes',
    api: ['DELETE', `${R}/upstreams/none`],
    page: ['POST', '/{group}/{name}/-/upstreams/remove', { name: 'none' }],
    command: 'upstream remove',
  },
  makePublic: {
    kind: 'opens',
    api: ['PATCH', R, { visibility: 'public' }],
    page: [
      'POST',
      '/{group}/{name}/-/settings',
      { visibility: 'public', description: '', release: 'direct', two_people: 'yes', is_sure: 'yes' },
    ],
    command: 'repository set',
  },
  forgetArchives: {
    kind: 'opens',
    api: ['POST', `${R}/mirrored-packages/forget`, { package: 'acme/none', version: '1.0.0' }],
    page: ['POST', '/{group}/{name}/-/upstreams/forget', { package: 'acme/none', version: '1.0.0' }],
    command: 'upstream forget',
  },
  decideContest: {
    kind: 'opens',
    api: ['POST', `${R}/mirrored-packages/decide`, { package: 'acme/none', upstream: 'public' }],
    page: ['POST', '/{group}/{name}/-/upstreams/decide', { package: 'acme/none', upstream: 'public' }],
    command: 'upstream decide',
  },
  liftQuarantine: {
    kind: 'opens',
    api: ['DELETE', `${R}/packages/acme/none/1.0.0/quarantine`],
    page: ['POST', `${P}/versions/release`, { version: '9.9.9' }],
    command: 'version release',
  },
  withdrawAdvisory: {
    kind: 'opens',
    api: ['DELETE', `${R}/packages/acme/none/advisories/x`],
    page: ['POST', `${P}/advisories/withdraw`, { advisory: 'x' }],
    command: 'advisory withdraw',
  },
  deleteRepository: {
    kind: 'deletes',
    api: ['DELETE', '/repositories/{group}/doomed'],
    page: ['POST', '/{group}/{name}/-/settings/delete', { path: '' }],
    command: 'repository delete',
  },
  restoreRepository: {
    kind: 'anyone',
    api: ['POST', '/repositories/{group}/gone/restore'],
    page: ['POST', '/{group}/-/restore', { name: 'gone' }],
    command: 'repository restore',
  },
  createRepository: {
    kind: 'anyone',
    api: ['POST', `${G}/repositories`, {}],
    page: ['POST', '/new/repository', { group: '{group}', name: 'Not Good' }],
    command: 'repository create',
  },
  readGroup: {
    kind: 'anyone',
    api: ['GET', G],
    page: ['GET', '/{group}/-/members'],
    command: 'member list',
  },
  readGroupEvents: {
    kind: 'anyone',
    api: ['GET', `${G}/events`],
    page: ['GET', '/{group}/-/activity'],
    command: 'event list',
  },
  manageGroup: {
    kind: 'anyone',
    api: ['PATCH', G, {}],
    page: ['POST', '/{group}/-/members', { username: 'nobody-at-all', role: 'guest' }],
    command: 'member set',
  },
  appointGroupAdmin: {
    kind: 'opens',
    api: ['PUT', `${G}/members/nobody-at-all`, { role: 'admin' }],
    page: ['POST', '/{group}/-/members', { username: 'nobody-at-all', role: 'admin' }],
    command: 'member set',
  },
  releaseVendor: {
    kind: 'opens',
    api: null,
    page: ['POST', '/{group}/{name}/-/upstreams/release', { vendor: 'none' }],
    command: 'vendor release',
  },
  readProjects: {
    kind: 'anyone',
    api: ['GET', `${G}/projects`],
    page: ['GET', '/{group}/-/projects'],
    command: 'project list',
  },
  reportLock: {
    kind: 'anyone',
    api: ['POST', `${G}/projects/none/lock`, {}],
    page: ['GET', '/{group}/-/projects/new'],
    command: 'project report',
  },
  deleteProject: {
    kind: 'deletes',
    api: ['DELETE', `${G}/projects/none`],
    page: ['POST', '/{group}/-/projects/{project}/delete'],
    command: 'project delete',
  },
  readPolicies: {
    kind: 'anyone',
    api: ['GET', `${G}/policies`],
    page: ['GET', '/{group}/-/policies'],
    command: 'policy list',
  },
  managePolicies: {
    kind: 'opens',
    api: ['POST', `${G}/policies`, {}],
    page: ['POST', '/{group}/-/policies/new'],
    command: 'policy add',
  },
  makeDeployToken: {
    kind: 'opens',
    api: ['POST', `${G}/deploy-tokens`, {}],
    page: ['POST', '/{group}/-/deploy-tokens'],
    command: 'deploy-token create',
  },
  addGroupWebhook: {
    kind: 'opens',
    api: ['POST', `${G}/webhooks`, {}],
    page: ['POST', '/{group}/-/webhooks/new'],
    command: 'webhook add',
  },
  invite: {
    kind: 'opens',
    api: ['POST', `${G}/invitations`, {}],
    page: ['POST', '/{group}/-/invitations', { email: 'nobody' }],
    command: 'member invite',
  },
  waiveSecondFactor: {
    kind: 'opens',
    api: ['PATCH', G, { requires_second_factor: false }],
    page: ['POST', '/{group}/-/settings/second-factor', { second_factor: 'optional' }],
    command: 'group set',
  },
  readProfile: { kind: 'anyone', api: ['GET', '/user'], page: ['GET', '/settings/account'], command: null },
  changeProfile: {
    kind: 'anyone',
    api: ['PATCH', '/user', {}],
    page: ['POST', '/settings/account/profile', { display_name: 'Ann' }],
    command: null,
  },
  readEmails: {
    kind: 'anyone',
    api: ['GET', '/user/emails'],
    page: ['GET', '/settings/account'],
    command: null,
  },
  listGroups: { kind: 'anyone', api: ['GET', '/groups'], page: ['GET', '/'], command: 'group list' },
  listRepositories: {
    kind: 'anyone',
    api: ['GET', '/repositories'],
    page: ['GET', '/'],
    command: 'repository list',
  },
  findArchives: {
    kind: 'anyone',
    api: ['GET', `/archives/${'0'.repeat(64)}`],
    page: ['GET', `/search?q=${'0'.repeat(64)}`],
    command: 'archives find',
  },
  createGroup: {
    kind: 'people',
    api: ['POST', '/groups', {}],
    page: ['POST', '/new/group', { name: 'Not Good' }],
    command: 'group create',
  },
  leaveGroup: {
    kind: 'people',
    api: ['DELETE', '/user/groups/{group}'],
    page: ['POST', '/{group}/-/leave'],
    command: null,
  },
  readOwnAccess: {
    kind: 'people',
    api: ['GET', '/user/sessions'],
    page: ['GET', '/settings/sessions'],
    command: null,
  },
  endOwnSession: {
    kind: 'people',
    api: ['DELETE', `/user/sessions/${'0'.repeat(64)}`],
    page: ['POST', '/settings/sessions/end', { session: '0'.repeat(64) }],
    command: null,
  },
  readNotifications: {
    kind: 'people',
    api: ['GET', '/user/notifications'],
    page: ['GET', '/settings/notifications'],
    command: null,
  },
  changeNotifications: {
    kind: 'people',
    api: ['PATCH', '/user/notifications', {}],
    page: ['POST', '/settings/notifications', allChoices],
    command: null,
  },
  exportOwnAccount: {
    kind: 'people',
    api: ['GET', '/user/export'],
    page: ['GET', '/settings/account/export'],
    command: null,
  },
  makePersonalToken: {
    kind: 'opens',
    api: null,
    page: ['POST', '/settings/tokens'],
    command: 'token create',
  },
  readSite: {
    kind: 'site',
    api: ['GET', '/accounts'],
    page: ['GET', '/admin/accounts'],
    command: 'account list',
  },
  readSiteEvents: {
    kind: 'site',
    api: ['GET', '/events'],
    page: ['GET', '/admin/events'],
    command: 'event list',
  },
  manageAccounts: {
    kind: 'site',
    api: ['POST', '/accounts', {}],
    page: ['POST', '/admin/accounts', { username: 'Not Good' }],
    command: 'account create',
  },
  manageApplications: {
    kind: 'site',
    api: ['DELETE', '/applications/none'],
    page: ['POST', '/admin/applications/{application}/delete', { confirmed: '' }],
    command: 'application delete',
  },
  inviteToSite: {
    kind: 'site',
    api: ['POST', '/invitations', { email: 'nobody' }],
    page: ['POST', '/admin/invitations', { email: 'nobody' }],
    command: 'account invite',
  },
  manageWebhooks: {
    kind: 'site',
    api: ['POST', '/webhooks', {}],
    page: ['POST', '/admin/webhooks/new'],
    command: 'webhook add',
  },
  renameGroup: {
    kind: 'site',
    api: ['PATCH', G, { name: '{group}' }],
    page: ['POST', '/admin/groups/rename', { group: '{group}', name: 'Not Good' }],
    command: 'group rename',
  },
  deleteGroup: {
    kind: 'site',
    api: ['DELETE', G],
    page: ['POST', '/admin/groups/delete', { group: '{group}', confirmed: '' }],
    command: 'group delete',
  },
  changeAdministrator: {
    kind: 'administrator',
    api: ['PUT', '/accounts/{administrator}/password', {}],
    page: ['POST', '/admin/accounts/{administrator}/password'],
    command: 'account set-password',
  },
}

let place: Record<string, string>
let tokens: Record<'application' | 'owner' | 'administrator' | 'admin token', string>
let browsers: Record<'owner' | 'administrator', { cookie: string; csrf_token: string }>

beforeAll(async () => {
  const { repository, account: owner, push, stage } = await aPublisher(t, { role: 'admin' })
  await push('1.0.0')
  const [group = '', name = ''] = repository.path.split('/')
  const { id: groupId } = await groupOf(t.db, repository)
  await aGroupMember(t.db, owner, { id: groupId }, 'admin')
  const [administrator, other] = [
    await anAccount(t.db, { isAdmin: true }),
    await anAccount(t.db, { isAdmin: true }),
  ]
  const application = await anApplication(t.db, { scopes: [...allScopes] })
  const scopes = [...allScopes]
  place = {
    group,
    name,
    groupId,
    application: application.clientId,
    administrator: other.username,
    stage: (await stage('2.0.0')).json().id,
    project: 'shop',
  }
  await aProject(t.db, { id: groupId }, 'shop')
  tokens = {
    application: await anAccessToken(t.db, await anAuthorization(t.db, owner, application, { scopes })),
    owner: await aPersonalToken(t.db, owner, { scopes }),
    administrator: await aPersonalToken(t.db, administrator, { scopes }),
    'admin token': await anAdminToken(t.db, administrator, { scopes }),
  }
  const browse = async (account: { username: string }) => {
    const cookie = await signIn(t.app, account)
    return {
      cookie,
      csrf_token: csrfTokenIn(await t.app.inject({ url: '/settings/account', headers: { cookie } })),
    }
  }
  browsers = { owner: await browse(owner), administrator: await browse(administrator) }
  await aStoredFactor(t.db, owner)
})

const filled = (text: string) => text.replace(/\{(\w+)\}/g, (_all, name: string) => place[name] ?? name)
const filledIn = (body: object) => JSON.parse(filled(JSON.stringify(body)))

/** Returns `allowed`, `refused`, or `proof` for a page that asks for a proof. What does not exist counts as allowed. */
function outcomeOf({ statusCode, headers, body }: LightMyRequestResponse) {
  if (String(headers.location).startsWith('/settings/confirm-access')) return 'proof'
  const isHidden = statusCode === 404 && /(repository|group) not found|do not have access to it/.test(body)
  return statusCode === 401 || statusCode === 403 || isHidden ? 'refused' : 'allowed'
}

async function byApi(who: keyof typeof tokens, [method, url, body]: NonNullable<Twin['api']>) {
  await reset()
  const response = await callApi(t, tokens[who], method, `/api${filled(url)}`, body && filledIn(body))
  return { outcome: outcomeOf(response), response }
}

async function byPage(
  who: keyof typeof browsers,
  [method, url, form = {}]: NonNullable<Twin['page']>,
  { isProven }: { isProven: boolean },
) {
  await reset()
  const { cookie, csrf_token } = browsers[who]
  await setProofAges(t.db, isProven ? '0' : '16 minutes')
  const response =
    method === 'GET'
      ? await t.app.inject({ url: filled(url), headers: { cookie } })
      : await post(t.app, filled(url), cookie, { csrf_token, ...filledIn(form) })
  return outcomeOf(response)
}

/** Undoes what the calls that are allowed change. */
async function reset() {
  const { id = '' } = (await findRepositoryByPath(t.db, `${place['group']}/${place['name']}`)) ?? {}
  await changeRepository(t.db, id, { visibility: 'private', twoPeople: true })
  await dropRows(t.db, 'repository', { name: ['doomed', 'gone'] })
  const group = { id: place['groupId'] as string, name: place['group'] as string }
  await aRepository(t.db, { group, name: 'doomed' })
  await deleteRepository(t.db, operator, await aRepository(t.db, { group, name: 'gone' }))
}

const isOnSite = (kind: Kind) => kind === 'site' || kind === 'administrator'
const asksProof = (kind: Kind) =>
  kind === 'deletes' || kind === 'opens' || kind === 'factor' || isOnSite(kind)
const byPeople = (kind: Kind) => kind !== 'anyone' && kind !== 'deletes'
const cases = Object.entries(twins) as [Act, Twin][]

it('every act has its twins', () => {
  expect(Object.keys(twins).toSorted()).toEqual(allActs.toSorted())
})

describe('an application', () => {
  it.each(cases)('does %s only if it makes no credential and weakens no protection', async (_act, twin) => {
    if (twin.api === null) return
    const { outcome, response } = await byApi('application', twin.api)
    expect(outcome).toBe(byPeople(twin.kind) ? 'refused' : 'allowed')
    if (twin.kind !== 'opens') return
    expect([response.statusCode, response.json().errmsg]).toEqual([
      403,
      'applications, deploy tokens and trusted publishers cannot do this: it needs a personal access token',
    ])
  })
})

describe('a personal access token', () => {
  it.each(cases)('of an admin of the group does %s unless it is site administration', async (_act, twin) => {
    if (twin.api === null) return
    expect((await byApi('owner', twin.api)).outcome).toBe(isOnSite(twin.kind) ? 'refused' : 'allowed')
  })

  it.each(cases)('of a site administrator does %s elsewhere only as an admin token', async (act, twin) => {
    if (twin.api === null) return
    const isOwn = placeOf(act) === 'account'
    expect((await byApi('administrator', twin.api)).outcome).toBe(isOwn ? 'allowed' : 'refused')
    const isAllowed = twin.kind !== 'administrator'
    expect((await byApi('admin token', twin.api)).outcome).toBe(isAllowed ? 'allowed' : 'refused')
  })
})

describe('a browser', () => {
  it.each(cases)('does %s, with a recent proof where it needs one', async (_act, { kind, page }) => {
    if (page === null) return
    const who = isOnSite(kind) ? 'administrator' : 'owner'
    expect(await byPage(who, page, { isProven: true })).toBe('allowed')
    expect(await byPage(who, page, { isProven: false })).toBe(asksProof(kind) ? 'proof' : 'allowed')
    if (isOnSite(kind)) expect(await byPage('owner', page, { isProven: true })).toBe('refused')
  })
})

describe('the command line', () => {
  it.each(cases)('may do %s', async (act, { command }) => {
    const operator = fullCredential('command', true)
    const repository = { id: '1', visibility: 'private', role: 'admin' } as const
    const verdicts: Record<string, () => string> = {
      repository: () => decideAccess(operator, repository, act as never),
      group: () => decideOnGroup(operator, 'admin', act as never),
      account: () => decideOnAccount(operator, act as never),
    }
    const verdictOn = verdicts[placeOf(act)] ?? (() => decideOnSite(operator, act as never))
    expect(verdictOn()).toBe('allowed')
    if (command === null) return
    const [noun, verb] = command.split(' ')
    const program = await makeProgram('0', noun)
    const verbs = program.commands.find((one) => one.name() === noun)?.commands.map((one) => one.name())
    expect(verbs).toContain(verb)
  })
})
