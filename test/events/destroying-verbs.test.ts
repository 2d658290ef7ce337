import { beforeAll, describe, expect, it, vi } from 'vitest'
import { invite } from '../../src/accounts/invite.ts'
import { makeProgram } from '../../src/commands/program.ts'
import { runProgram } from '../../src/commands/run.ts'
import type { Role } from '../../src/domain/permissions.ts'
import { operator } from '../../src/domain/principal.ts'
import { allScopes } from '../../src/domain/scopes.ts'
import {
  type IdentityAction,
  identityActions,
  type RegistryAction,
  registryWords,
} from '../../src/events/actions.ts'
import { requireFactorOfMembers } from '../../src/groups/factor-requirement.ts'
import type { Group } from '../../src/groups/groups.ts'
import { changeRepository } from '../../src/groups/repositories.ts'
import { addPublisher } from '../../src/publishers/trusted-publishers.ts'
import { anIdentity, aStoredPasskey, listStoredSessions } from '../support/account-rows.ts'
import {
  aDeployToken,
  aGroup,
  aGroupMember,
  aMember,
  aName,
  anAccount,
  anAdminToken,
  aPersonalToken,
  aRepository,
  csrfTokenIn,
  password,
  post,
  signIn,
} from '../support/actors.ts'
import { callApi, type Method } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { aWaitingDocument } from '../support/document-server.ts'
import { eventsOf, lastEventId } from '../support/event-rows.ts'
import { aPersonWithTotp, codeOf, forgetCodes } from '../support/factor-actors.ts'
import { listForms } from '../support/form-urls.ts'
import { aMirroredArchive, aMirroredPackage, holdBack } from '../support/mirrored-rows.ts'
import { aLaterGrant, anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { databaseUrl } from '../support/program.ts'
import { aProject } from '../support/project-rows.ts'
import { aPackageZip, basic } from '../support/registry-actors.ts'
import { aStoredFactor, setProofAges } from '../support/session-rows.ts'
import { listDeployTokenIds, listPersonalTokenIds } from '../support/token-rows.ts'
import { aContestedName, anUpstream, aVendorClaim } from '../support/upstream-rows.ts'

/*
 * Everything that deletes, ends, removes or disables something, makes it public or lowers a rule, on pages, in the API and on
 * the command line. The lists of all forms, endpoints and commands come from the program: each is here, or says why not.
 */
const t = useApp({ BASE_URL: 'http://localhost' })

type Place = Record<string, string>

/** An endpoint with its method, a body and a query. */
type Endpoint = [endpoint: string, body?: object | undefined, query?: string]

interface Verb {
  /** The actions of all events that it writes. */
  writes: (IdentityAction | RegistryAction)[]
  /** Makes what is destroyed. The names of the place fill in the URLs and fields below. */
  make: () => Promise<Place>
  api?: Endpoint | Endpoint[]
  pages?: [form: string, fields?: Record<string, string>][]
  command?: string
}

const aPlace = async () => {
  const repository = await aRepository(t.db, { group: home, name: aName('repo') })
  const [group = '', name = ''] = repository.path.split('/')
  return { group, name, path: repository.path, repositoryId: repository.id }
}

const somebody = async (about: Parameters<typeof anAccount>[1] = {}) => {
  const { id: accountId, username } = await anAccount(t.db, about)
  return { accountId, username }
}

/** Somebody who is signed in, and acts alone. */
async function self(person = anAccount(t.db)) {
  const { id: accountId, username } = await person
  return { accountId, username, cookie: await signIn(t.app, { username }) }
}

async function aVersion(manifest: object = {}) {
  const place = await aPlace()
  const response = await upload(place, 'upload', manifest)
  if (response.statusCode !== 201) throw new Error(response.body)
  return {
    ...place,
    vendor: 'acme',
    package: 'lib',
    version: '1.0.0',
    sha256: String(response.json().sha256),
  }
}

function upload({ path }: { path: string }, kind: 'upload' | 'stage', manifest: object = {}) {
  return t.app.inject({
    method: 'PUT',
    url: `/${path}/-/packages/${kind}/acme/lib/1.0.0`,
    headers: { authorization: basic(tokens.owner) },
    payload: aPackageZip('acme/lib', { ...manifest }),
  })
}

async function aChanged(change: (place: Place, url: string) => [Method, string, object?]) {
  const place = await aVersion()
  const [method, below, body] = change(place, `/repositories/${place.path}/packages/acme/lib`)
  const response = await callApi(t, tokens.owner, method, `/api${below}`, body)
  if (response.statusCode >= 300) throw new Error(response.body)
  return { ...place, advisory: String(response.body && response.json().advisory_id) }
}

async function aStage() {
  const place = await aPlace()
  const { id } = (await upload(place, 'stage')).json()
  return { ...place, id: String(id) }
}

async function aSource() {
  const place = await aPlace()
  const url = `/api/repositories/${place.path}/sources`
  const response = await callApi(t, tokens.owner, 'POST', url, { url: 'https://1.1.1.1/acme/lib' })
  if (response.statusCode !== 201) throw new Error(response.body)
  const id = String(response.json().id)
  return { ...place, id, source: id }
}

async function aMemberOf(what: 'group' | 'repository', role: Role = 'developer') {
  const person = await somebody()
  if (what === 'repository') {
    const place = await aPlace()
    await aMember(t.db, { id: person.accountId }, { id: place.repositoryId }, role)
    return { ...place, ...person }
  }
  await aGroupMember(t.db, { id: person.accountId }, home, role)
  return { group: home.name, ...person }
}

/** A mirrored package. The upstream `second` comes first, and may have its name, too. */
async function aMirror(name: string, isApproved = false) {
  const place = await aPlace()
  const repository = { id: place.repositoryId }
  const rules = { mode: 'approved', minimumAgeHours: 72, position: 2 }
  const upstreamId = await anUpstream(t.db, repository, rules)
  await aMirroredPackage(t.db, repository, name, { upstreamId, isSeen: true, isRequested: true, isApproved })
  return { ...place, upstream: 'public', mirrored: name }
}

/** The form of a webhook that is told about publications only. */
const lessNews = {
  url: 'https://1.1.1.1/hook',
  format: 'json',
  extent: 'chosen',
  event: 'version.published',
}

/** A webhook of a place, such as `/groups/acme`. */
async function aWebhookAt(place: string) {
  const token = place === '' ? tokens.administrator : tokens.owner
  const response = await callApi(t, token, 'POST', `/api${place}/webhooks`, { url: 'https://1.1.1.1/hook' })
  if (response.statusCode !== 201) throw new Error(response.body)
  return { id: String(response.json().id) }
}

async function aPolicyRule() {
  const draft = { kind: 'packages', patterns: ['acme/old'], reason: 'Too old' }
  const response = await callApi(t, tokens.owner, 'POST', `/api/groups/${home.name}/policies`, draft)
  if (response.statusCode !== 201) throw new Error(response.body)
  return { group: home.name, id: String(response.json().id) }
}

const P = '/:group/:name/packages/:vendor/:package'
const R = '/repositories/:group/:name'
const V = `${P}/-/versions`

const verbs: Record<string, Verb> = {
  'delete a version': {
    writes: ['delete'],
    make: aVersion,
    api: [`DELETE ${R}/packages/:vendor/:package/:version`],
    pages: [[`${V}/delete`, { version: '1.0.0' }]],
    command: 'version delete :path acme/lib 1.0.0',
  },
  'delete a package': {
    writes: ['delete'],
    make: aVersion,
    api: [`DELETE ${R}/packages/:vendor/:package`],
    command: 'package delete :path acme/lib',
  },
  'purge a version': {
    writes: ['purge'],
    make: aVersion,
    api: [`DELETE ${R}/packages/:vendor/:package/:version`, undefined, '?purge=true'],
    command: 'version purge :path acme/lib 1.0.0 --force',
  },
  'purge a package': {
    writes: ['purge'],
    make: aVersion,
    api: [`DELETE ${R}/packages/:vendor/:package`, undefined, '?purge=true'],
    command: 'package purge :path acme/lib --force',
  },
  'abandon a package': {
    writes: ['abandon'],
    make: aVersion,
    api: [`PATCH ${R}/packages/:vendor/:package`, { abandoned: true }],
    pages: [[`${V}/abandon`, { replacement: '' }]],
    command: 'package abandon :path acme/lib',
  },
  'quarantine a version': {
    writes: ['quarantine'],
    make: aVersion,
    api: [`POST ${R}/packages/:vendor/:package/:version/quarantine`, { reason: 'bad' }],
    pages: [[`${V}/quarantine`, { version: '1.0.0', reason: 'bad' }]],
    command: 'version quarantine :path acme/lib 1.0.0',
  },
  'release a version from quarantine': {
    writes: ['release'],
    make: () => aChanged((_place, url) => ['POST', `${url}/1.0.0/quarantine`, { reason: 'bad' }]),
    api: [`DELETE ${R}/packages/:vendor/:package/:version/quarantine`],
    pages: [[`${V}/release`, { version: '1.0.0' }]],
    command: 'version release :path acme/lib 1.0.0',
  },
  'withdraw an advisory': {
    writes: ['withdraw'],
    make: () =>
      aChanged((_place, url) => ['POST', `${url}/advisories`, { title: 'A hole', affected_versions: '*' }]),
    api: [`DELETE ${R}/packages/:vendor/:package/advisories/:advisory`],
    pages: [[`${P}/-/advisories/withdraw`, { advisory: ':advisory' }]],
    command: 'advisory withdraw :path acme/lib :advisory',
  },
  'import an advisory that is withdrawn': {
    writes: ['withdraw'],
    make: () =>
      aChanged((_place, url) => ['POST', `${url}/advisories`, { title: 'A hole', affected_versions: '*' }]),
    api: [
      `POST ${R}/advisories/import`,
      {
        id: 'x_:advisory',
        modified: '2026-11-01T00:00:00Z',
        withdrawn: '2026-11-01T00:00:00Z',
        affected: [{ package: { ecosystem: 'Packagist', name: ':vendor/:package' } }],
      },
    ],
  },
  'end the review of a package': {
    writes: ['change-package'],
    make: () => aChanged((_place, url) => ['PATCH', url, { release: 'reviewed' }]),
    api: [`PATCH ${R}/packages/:vendor/:package`, { release: 'direct' }],
    pages: [[`${V}/end-review`]],
  },
  'end the limit to trusted publishers': {
    writes: ['change-package'],
    make: () => aChanged((_place, url) => ['PATCH', url, { only_trusted_publishers: true }]),
    api: [`PATCH ${R}/packages/:vendor/:package`, { only_trusted_publishers: false }],
    pages: [[`${V}/end-only-trusted-publishers`]],
    command: 'package set :path acme/lib --only-trusted-publishers no',
  },
  'reject a stage': {
    writes: ['reject'],
    make: aStage,
    pages: [['/:group/:name/-/stages/:id/reject', { reason: '' }]],
    command: 'stage reject :id',
  },
  'release a stage': {
    writes: ['publish', 'release-stage'],
    make: aStage,
    pages: [['/:group/:name/-/stages/:id/release']],
    command: 'stage release :id',
  },
  'take away a role in a repository': {
    writes: ['remove-member'],
    make: () => aMemberOf('repository'),
    api: [`DELETE ${R}/members/:username`],
    pages: [['/:group/:name/-/members/remove', { username: ':username' }]],
    command: 'member set :path :username none',
  },
  'lower a role in a repository': {
    writes: ['set-member'],
    make: () => aMemberOf('repository'),
    api: [`PUT ${R}/members/:username`, { role: 'guest' }],
    pages: [['/:group/:name/-/members', { username: ':username', role: 'guest', row: 'yes' }]],
    command: 'member set :path :username guest',
  },
  'take away a role in a group': {
    writes: ['remove-group-member'],
    make: () => aMemberOf('group'),
    api: ['DELETE /groups/:group/members/:username'],
    pages: [['/:group/-/members/remove', { username: ':username' }]],
    command: 'member set :group :username none',
  },
  'lower a role in a group': {
    writes: ['set-group-member'],
    make: () => aMemberOf('group'),
    api: ['PUT /groups/:group/members/:username', { role: 'guest' }],
    pages: [['/:group/-/members', { username: ':username', role: 'guest', row: 'yes' }]],
    command: 'member set :group :username guest',
  },
  'leave a group': {
    writes: ['remove-group-member'],
    async make() {
      const person = await self()
      await aGroupMember(t.db, { id: person.accountId }, home, 'guest')
      return { ...person, group: home.name }
    },
    api: ['DELETE /user/groups/:group'],
    pages: [['/:group/-/leave']],
  },
  'delete a repository': {
    writes: ['delete-repository'],
    make: aPlace,
    api: [`DELETE ${R}`],
    pages: [['/:group/:name/-/settings/delete', { path: ':path' }]],
    command: 'repository delete :path --force',
  },
  'make a repository public': {
    writes: ['change-repository'],
    make: aPlace,
    api: [`PATCH ${R}`, { visibility: 'public' }],
    pages: [['/:group/:name/-/settings', { visibility: 'public', description: '', is_sure: 'yes' }]],
    command: 'repository set :path --visibility public --force',
  },
  'end the reviews of a repository': {
    writes: ['change-repository'],
    async make() {
      const place = await aPlace()
      await changeRepository(t.db, place.repositoryId, { release: 'reviewed', twoPeople: true })
      return place
    },
    api: [`PATCH ${R}`, { release: 'direct', two_people: false }],
    pages: [['/:group/:name/-/settings', { visibility: 'private', description: '', release: 'direct' }]],
    command: 'repository set :path --release direct --two-people no',
  },
  'stop requiring a second factor of a group': {
    writes: ['set-group'],
    async make() {
      const group = await aGroup(t.db)
      await aGroupMember(t.db, owner, group, 'admin')
      await requireFactorOfMembers(t.db, operator, group, { isRequired: true })
      return { group: group.name }
    },
    api: ['PATCH /groups/:group', { requires_second_factor: false }],
    pages: [['/:group/-/settings/second-factor', { second_factor: 'optional', days: '' }]],
    command: 'group set :group --require-second-factor off',
  },
  'delete a group': {
    writes: ['delete-group'],
    make: async () => ({ group: (await aGroup(t.db)).name }),
    api: ['DELETE /groups/:group'],
    pages: [['/admin/groups/delete', { group: ':group', confirmed: ':group' }]],
    command: 'group delete :group --force',
  },
  'remove an upstream': {
    writes: ['remove-upstream'],
    make: () => aMirror('removed/lib'),
    api: [`DELETE ${R}/upstreams/:upstream`],
    pages: [['/:group/:name/-/upstreams/remove', { name: 'public' }]],
    command: 'upstream remove :path public --force',
  },
  'lower the rules of an upstream': {
    writes: ['set-upstream'],
    make: () => aMirror('lowered/lib'),
    api: [`PATCH ${R}/upstreams/:upstream`, { mode: 'automatic', minimum_age_hours: 0 }],
    pages: [
      [
        '/:group/:name/-/upstreams/set',
        { name: 'public', url: 'https://packages.example.com/', mode: 'automatic', minimum_age_hours: '0' },
      ],
    ],
    command: 'upstream set :path public --mode automatic --minimum-age 0',
  },
  'approve a package of an upstream': {
    writes: ['approve-package'],
    make: () => aMirror('waiting/lib'),
    api: [`POST ${R}/mirrored-packages/approve`, { packages: ['waiting/lib'] }],
    pages: [['/:group/:name/-/upstreams/approve', { packages: 'waiting/lib' }]],
    command: 'upstream approve :path waiting/lib',
  },
  'allow versions that are held back': {
    writes: ['allow-versions'],
    async make() {
      const name = `${aName('held')}/lib`
      const mirror = await aMirror(name)
      await holdBack(t.db, name, ['1.0.0'])
      return mirror
    },
    api: [`POST ${R}/mirrored-packages/allow`, { package: ':mirrored' }],
    pages: [['/:group/:name/-/upstreams/allow', { package: ':mirrored', version: '' }]],
    command: 'upstream allow :path :mirrored',
  },
  'forget the archive of an upstream': {
    writes: ['forget-archive'],
    async make() {
      const name = `${aName('forgotten')}/lib`
      const mirror = await aMirror(name, true)
      await aMirroredArchive(t.db, name, { sha256: (await aVersion()).sha256, alarm: 'other bytes' })
      return mirror
    },
    api: [`POST ${R}/mirrored-packages/forget`, { package: ':mirrored', version: '1.0.0' }],
    pages: [['/:group/:name/-/upstreams/forget', { package: ':mirrored', version: '1.0.0' }]],
    command: 'upstream forget :path :mirrored 1.0.0 --force',
  },
  'decide which upstream serves a package': {
    writes: ['decide-package'],
    async make() {
      const name = `${aName('contested')}/lib`
      const mirror = await aMirror(name)
      await anUpstream(
        t.db,
        { id: mirror.repositoryId },
        { name: 'second', url: 'https://second.example.com/', position: 1 },
      )
      await aContestedName(t.db, name, 'second')
      return mirror
    },
    api: [`POST ${R}/mirrored-packages/decide`, { package: ':mirrored', upstream: 'second' }],
    pages: [['/:group/:name/-/upstreams/decide', { package: ':mirrored', upstream: 'second' }]],
    command: 'upstream decide :path :mirrored second --force',
  },
  'release a vendor': {
    writes: ['release-vendor'],
    async make() {
      const vendor = aName('vendor')
      await aVendorClaim(t.db, home, vendor)
      return { ...(await aPlace()), claimed: vendor }
    },
    pages: [['/:group/:name/-/upstreams/release', { vendor: ':claimed' }]],
    command: 'vendor release :group :claimed',
  },
  'revoke a personal token': {
    writes: ['token-revoked'],
    async make() {
      const person = await self()
      await aPersonalToken(t.db, { id: person.accountId }, { name: 'laptop' })
      const [tokenId = ''] = await listPersonalTokenIds(t.db, { id: person.accountId })
      return { ...person, tokenId }
    },
    pages: [
      ['/settings/tokens/revoke', { id: ':tokenId' }],
      ['/admin/accounts/:username/tokens/revoke', { id: ':tokenId' }],
    ],
    command: 'token revoke :username --name laptop --force',
  },
  'revoke a deploy token': {
    writes: ['deploy-token-revoked', 'revoke-deploy-token'],
    async make() {
      const place = await aPlace()
      const token = aName('ci')
      await aDeployToken(t.db, home, { name: token })
      const [id = ''] = (await listDeployTokenIds(t.db, home)).toReversed()
      return { ...place, token, id }
    },
    api: ['DELETE /groups/:group/deploy-tokens/:id'],
    pages: [['/:group/-/deploy-tokens/revoke', { id: ':id' }]],
    command: 'deploy-token revoke :group --name :token --force',
  },
  'revoke a deploy token of a repository': {
    writes: ['deploy-token-revoked', 'revoke-deploy-token'],
    async make() {
      const place = await aPlace()
      await aDeployToken(t.db, home, { repositories: [{ id: place.repositoryId, path: place.path }] })
      const [id = ''] = (await listDeployTokenIds(t.db, home)).toReversed()
      return { ...place, id }
    },
    pages: [['/:group/:name/-/deploy-tokens/revoke', { id: ':id' }]],
  },
  'remove a trusted publisher': {
    writes: ['remove-publisher'],
    async make() {
      const place = await aPlace()
      const where = { repositoryId: place.repositoryId, by: operator }
      const wanted = {
        provider: 'github',
        project: 'acme/lib',
        workflow: 'release.yml',
        right: 'publish',
      } as const
      return { ...place, id: await addPublisher(t, where, wanted as Parameters<typeof addPublisher>[2]) }
    },
    api: [`DELETE ${R}/trusted-publishers/:id`],
    pages: [['/:group/:name/-/trusted-publishers/remove', { id: ':id' }]],
    command: 'trusted-publisher remove :id --force',
  },
  'remove a source': {
    writes: ['remove-source'],
    make: aSource,
    api: [`DELETE ${R}/sources/:id`],
    pages: [['/:group/:name/-/sources/:source/remove']],
    command: 'source remove :id --force',
  },
  'replace the secret of hooks': {
    writes: ['change-hook-secret'],
    make: aSource,
    api: [`POST ${R}/sources/:id/hook-secret`, {}],
    pages: [['/:group/:name/-/sources/:source/hook-secret']],
    command: 'source hook-secret :id',
  },
  'remove a webhook': {
    writes: ['remove-webhook'],
    make: async () => {
      const place = await aPlace()
      return { ...place, ...(await aWebhookAt(`/repositories/${place.path}`)) }
    },
    api: [`DELETE ${R}/webhooks/:id`],
    pages: [['/:group/:name/-/webhooks/:id/remove']],
    command: 'webhook remove :id --force',
  },
  'remove a webhook of a group': {
    writes: ['remove-webhook'],
    make: async () => ({ group: home.name, ...(await aWebhookAt(`/groups/${home.name}`)) }),
    api: ['DELETE /groups/:group/webhooks/:id'],
    pages: [['/:group/-/webhooks/:id/remove']],
  },
  'remove a webhook of the site': {
    writes: ['webhook-removed'],
    make: () => aWebhookAt(''),
    api: ['DELETE /webhooks/:id'],
    pages: [['/admin/webhooks/:id/remove']],
  },
  'disable a webhook': {
    writes: ['change-webhook'],
    make: async () => {
      const place = await aPlace()
      return { ...place, ...(await aWebhookAt(`/repositories/${place.path}`)) }
    },
    api: [`PATCH ${R}/webhooks/:id`, { enabled: false }],
    pages: [['/:group/:name/-/webhooks/:id/enabled', { enabled: 'no' }]],
    command: 'webhook disable :id',
  },
  'disable a webhook of a group': {
    writes: ['change-webhook'],
    make: async () => ({ group: home.name, ...(await aWebhookAt(`/groups/${home.name}`)) }),
    api: ['PATCH /groups/:group/webhooks/:id', { enabled: false }],
    pages: [['/:group/-/webhooks/:id/enabled', { enabled: 'no' }]],
  },
  'disable a webhook of the site': {
    writes: ['webhook-changed'],
    make: () => aWebhookAt(''),
    api: ['PATCH /webhooks/:id', { enabled: false }],
    pages: [['/admin/webhooks/:id/enabled', { enabled: 'no' }]],
  },
  'tell a webhook of a repository less': {
    writes: ['change-webhook'],
    make: async () => {
      const place = await aPlace()
      return { ...place, ...(await aWebhookAt(`/repositories/${place.path}`)) }
    },
    api: [`PATCH ${R}/webhooks/:id`, { events: ['version.published'] }],
    pages: [['/:group/:name/-/webhooks/:id/edit', lessNews]],
    command: 'webhook set :id --events version.published',
  },
  'tell a webhook of a group less': {
    writes: ['change-webhook'],
    make: async () => ({ group: home.name, ...(await aWebhookAt(`/groups/${home.name}`)) }),
    api: ['PATCH /groups/:group/webhooks/:id', { events: ['version.published'] }],
    pages: [['/:group/-/webhooks/:id/edit', lessNews]],
  },
  'tell a webhook of the site less': {
    writes: ['webhook-changed'],
    make: () => aWebhookAt(''),
    api: ['PATCH /webhooks/:id', { events: ['version.published'] }],
    pages: [['/admin/webhooks/:id/edit', lessNews]],
  },
  'remove a policy rule': {
    writes: ['remove-policy'],
    make: aPolicyRule,
    api: ['DELETE /groups/:group/policies/:id'],
    pages: [['/:group/-/policies/:id/remove']],
    command: 'policy remove :group :id --force',
  },
  'change a policy rule': {
    writes: ['change-policy'],
    make: aPolicyRule,
    api: ['PATCH /groups/:group/policies/:id', { patterns: ['acme/older'] }],
    pages: [['/:group/-/policies/:id/edit', { patterns: 'acme/older', reason: 'Too old' }]],
  },
  'set retention rules': {
    writes: ['set-retention'],
    make: aPlace,
    api: [`PUT ${R}/retention`, { keep_development: 5, deleted_archives_days: null }],
    pages: [['/:group/:name/-/settings/retention', { keep_development: '5' }]],
    command: 'retention set :path --keep-development 5',
  },
  'delete a project': {
    writes: ['delete-project'],
    async make() {
      const project = aName('shop')
      await aProject(t.db, home, project)
      return { group: home.name, project }
    },
    api: ['DELETE /groups/:group/projects/:project'],
    pages: [['/:group/-/projects/:project/delete']],
    command: 'project delete :group/:project --force',
  },
  'withdraw an invitation': {
    writes: ['invitation-withdrawn'],
    async make() {
      const { id } = await invite(t.db, t.config, operator, {
        email: null,
        target: { groupId: home.id, role: 'guest' },
      })
      return { group: home.name, id: String(id) }
    },
    api: ['DELETE /groups/:group/invitations/:id'],
    pages: [['/:group/-/invitations/withdraw', { id: ':id' }]],
    command: 'invitation withdraw :id',
  },
  'withdraw an invitation to the site': {
    writes: ['invitation-withdrawn'],
    async make() {
      const { id } = await invite(t.db, t.config, operator, { email: null, target: null })
      return { id: String(id) }
    },
    api: ['DELETE /invitations/:id'],
    pages: [['/admin/invitations/withdraw', { id: ':id' }]],
  },
  'disable an account': {
    writes: ['account-disabled'],
    make: somebody,
    api: ['PATCH /accounts/:username', { disabled: true }],
    pages: [['/admin/accounts/:username', { act: 'disable' }]],
    command: 'account disable :username',
  },
  'disable an account that is signed in, and end everything': {
    writes: ['account-disabled', 'session-ended', 'token-revoked'],
    async make() {
      const { username, accountId } = await self()
      await aPersonalToken(t.db, { id: accountId })
      return { username }
    },
    api: ['PATCH /accounts/:username', { disabled: true, end_everything: true }],
    pages: [['/admin/accounts/:username', { act: 'disable', end_everything: 'yes' }]],
    command: 'account disable :username --end-everything --force',
  },
  'delete an account': {
    writes: ['account-deleted'],
    make: somebody,
    api: ['DELETE /accounts/:username'],
    pages: [['/admin/accounts/:username/delete', { confirmed: ':username' }]],
    command: 'account delete :username --force',
  },
  'delete the own account': {
    writes: ['account-deleted'],
    make: () => self(),
    pages: [['/settings/account/delete', { username: ':username', current_password: password }]],
  },
  'take away the role of an administrator': {
    writes: ['admin-removed'],
    make: () => somebody({ isAdmin: true }),
    pages: [['/admin/accounts/:username', { act: 'unmake-admin' }]],
    command: 'account set-admin :username off',
  },
  'end a session': {
    writes: ['session-ended'],
    async make() {
      const person = await self()
      await signIn(t.app, person)
      const [session = ''] = (await listStoredSessions(t.db, { id: person.accountId }))
        .map(keyOf)
        .toReversed()
      return { ...person, session }
    },
    api: [['DELETE /user/sessions/:session'], ['DELETE /accounts/:username/sessions/:session']],
    pages: [
      ['/settings/sessions/end', { session: ':session' }],
      ['/settings/sessions/end-others'],
      ['/admin/accounts/:username/sessions/end', { session: ':session' }],
    ],
    command: 'session revoke :username :session',
  },
  'end all sessions': {
    writes: ['session-ended'],
    make: () => self(),
    api: ['DELETE /accounts/:username/sessions'],
    pages: [['/admin/accounts/:username', { act: 'end-sessions' }]],
    command: 'session revoke :username --all',
  },
  'sign out': {
    writes: ['sign-out'],
    make: () => self(),
    pages: [['/logout'], ['/settings/account/sign-out-everywhere']],
  },
  'end the sessions with a new password': {
    writes: ['password-changed', 'session-ended'],
    make: () => self(),
    pages: [
      [
        '/settings/account/password',
        {
          current_password: password,
          new_password: 'a-long-new-password',
          repeated_password: 'a-long-new-password',
        },
      ],
    ],
  },
  'remove the second factor': {
    writes: ['second-factor-removed'],
    async make() {
      const person = await somebody()
      await aStoredFactor(t.db, { id: person.accountId })
      return person
    },
    api: ['DELETE /accounts/:username/factors'],
    pages: [['/admin/accounts/:username', { act: 'reset-factors' }]],
    command: 'account reset-factors :username --force',
  },
  'remove the own authenticator app': {
    writes: ['second-factor-removed'],
    async make() {
      const person = await aPersonWithTotp(t)
      await forgetCodes(t, person)
      return {
        accountId: person.id,
        username: person.username,
        cookie: person.cookie,
        code: codeOf(person.secret),
      }
    },
    pages: [['/settings/second-factor/totp/remove', { current_password: password, code: ':code' }]],
  },
  'remove a passkey': {
    writes: ['second-factor-removed'],
    async make() {
      const person = await self()
      return { ...person, id: await aStoredPasskey(t.db, { id: person.accountId }) }
    },
    pages: [['/settings/second-factor/passkeys/remove', { id: ':id' }]],
    command: 'account remove-passkey :username :id --force',
  },
  'replace the recovery codes': {
    writes: ['recovery-codes-created'],
    async make() {
      const person = await aPersonWithTotp(t)
      return { accountId: person.id, username: person.username, cookie: person.cookie }
    },
    pages: [['/settings/second-factor/recovery-codes']],
  },
  'revoke everything of an account': {
    writes: ['authorization-withdrawn', 'token-revoked'],
    async make() {
      const person = await self()
      await aPersonalToken(t.db, { id: person.accountId })
      await anAuthorization(t.db, { id: person.accountId }, await anApplication(t.db))
      return person
    },
    api: ['POST /accounts/:username/revoke-all'],
    pages: [['/settings/account/revoke-all'], ['/admin/accounts/:username', { act: 'revoke-all' }]],
    command: 'account revoke-all :username --force',
  },
  'withdraw an authorization': {
    writes: ['authorization-withdrawn'],
    async make() {
      const person = await self()
      const application = await anApplication(t.db)
      const { id } = await anAuthorization(t.db, { id: person.accountId }, application)
      return { ...person, authorization: id, clientId: application.clientId }
    },
    pages: [['/settings/authorizations/withdraw', { authorization: ':authorization' }]],
    command: 'account withdraw :username :clientId --force',
  },
  'end one grant of an application': {
    writes: ['grant-ended'],
    async make() {
      const person = await self()
      const application = await anApplication(t.db)
      const authorization = await anAuthorization(t.db, { id: person.accountId }, application)
      const grant = await aLaterGrant(t.db, authorization)
      return { ...person, grant, clientId: application.clientId }
    },
    pages: [['/settings/authorizations/end', { grant: ':grant' }]],
    command: 'account withdraw :username :clientId --grant :grant --force',
  },
  'unlink an account of a provider': {
    writes: ['identity-unlinked'],
    async make() {
      const person = await self()
      const identity = { issuer: 'https://id.example.com', subject: person.username, provider: 'id' }
      await anIdentity(t.db, { id: person.accountId }, identity)
      return person
    },
    pages: [
      ['/settings/account/identities/unlink', { issuer: 'https://id.example.com' }],
      ['/admin/accounts/:username/identities', { issuer: 'https://id.example.com' }],
    ],
    command: 'account unlink :username id',
  },
  'give an account a new password': {
    writes: ['password-changed'],
    make: somebody,
    api: ['PUT /accounts/:username/password', {}],
    pages: [['/admin/accounts/:username/password']],
    command: 'account set-password :username --password a-long-new-password',
  },
  'suspend an application': {
    writes: ['application-suspended'],
    make: async () => ({ clientId: (await anApplication(t.db)).clientId }),
    api: ['POST /applications/:clientId/suspend', {}],
    pages: [['/admin/applications/:clientId', { act: 'suspend', reason: '' }]],
    command: 'application suspend :clientId',
  },
  'decline an application': {
    writes: ['application-declined'],
    make: async () => ({ clientId: (await anApplication(t.db, { status: 'pending' })).clientId }),
    api: ['POST /applications/:clientId/decline', { reason: 'no' }],
    pages: [['/admin/applications/:clientId', { act: 'decline', reason: 'no' }]],
    command: 'application decline :clientId --reason no',
  },
  'reject a client metadata document': {
    writes: ['application-document-rejected'],
    make: async () => {
      const { id } = await aWaitingDocument(t.db)
      return { id, document: id }
    },
    api: ['POST /client-documents/:document/reject', {}],
    pages: [['/admin/applications/documents/:id', { act: 'reject', reason: '' }]],
    command: 'client-document reject :id',
  },
  'delete an application': {
    writes: ['application-deleted'],
    async make() {
      const { clientId, name } = await anApplication(t.db)
      return { clientId, application: name }
    },
    api: ['DELETE /applications/:clientId'],
    pages: [['/admin/applications/:clientId/delete', { confirmed: ':application' }]],
    command: 'application delete :clientId --force',
  },
  'lower the rules of an application': {
    writes: ['application-changed'],
    async make() {
      const application = await anApplication(t.db, { exactRedirect: true, scopes: ['account-profile:r'] })
      const { clientId, name, website, redirectUri } = application
      return { clientId, application: name, website, redirectUri }
    },
    api: ['PATCH /applications/:clientId', { exact_redirect: false }],
    pages: [
      [
        '/admin/applications/:clientId/edit',
        {
          name: ':application',
          website: ':website',
          redirect_uri: ':redirectUri',
          scope: 'account-profile:r',
          resource_scope: 'all',
          description: '',
        },
      ],
    ],
    command: 'application set :clientId --no-exact-redirect',
  },
  'end the secret of an application': {
    writes: ['application-secret-rotated'],
    make: async () => ({ clientId: (await anApplication(t.db)).clientId }),
    api: ['POST /applications/:clientId/secret', { overlap_seconds: 0 }],
    pages: [['/admin/applications/:clientId/secret', { overlap_seconds: '0' }]],
    command: 'application rotate-secret :clientId --overlap-seconds 0',
  },
}

/** What destroys and weakens nothing, by its whole name or its last word. Who replaces an app keeps a second factor. */
const harmless = {
  forms: new Set(
    `accounts invitations deploy-tokens tokens advisories passkeys new rename restore upload request claim fetch sync review
     maintain only-trusted-publishers details profile sign-in verification reset-link verification-link email-verification
     confirm-access send-link link confirm ping resend rotate totp notifications watch unsubscribe login passkey account sign-up password-reset group repository
     /settings/second-factor/totp/replace /device /login/second-factor /:group/:name/-/upload/:id`.split(
      /\s+/,
    ),
  ),
  endpoints: new Set(
    `accounts groups repositories invitations deploy-tokens trusted-publishers upstreams sources webhooks policies advisories user notifications
     restore request check sync confirm reset-link approve rotate ping resend lock
     PUT /user/watched/:/: DELETE /user/watched/:/: PUT /user/watched-groups/: DELETE /user/watched-groups/: POST /:/:/-/packages/upload/:/:/: PUT /:/:/-/packages/upload/:/:/:`
      .split(/\s+(?!\/)/)
      .filter(Boolean),
  ),
  commands: new Set(
    `list show preview check history find downloads export system completion create add new invite import claim enable approve confirm unabandon
     refs sync report sbom rotate test deliveries delivery resend rename set-name set-email reset-link verification-link prefetch retry copy restore
     login logout whoami push search composer-auth serve migrate demo rekey backup collect-garbage verify-archives`.split(
      /\s+/,
    ),
  ),
}

let owner: { id: string; username: string }
let home: Group
let tokens: { owner: string; administrator: string }
let browsers: { owner: Place; administrator: Place }

beforeAll(async () => {
  owner = await anAccount(t.db)
  const administrator = await anAccount(t.db, { isAdmin: true })
  home = await aGroup(t.db)
  await aGroupMember(t.db, owner, home, 'admin')
  // The group keeps an admin, whoever leaves it.
  await aGroupMember(t.db, administrator, home, 'admin')
  tokens = {
    owner: await aPersonalToken(t.db, owner, { scopes: [...allScopes] }),
    administrator: await anAdminToken(t.db, administrator, { scopes: [...allScopes] }),
  }
  const browse = async ({ username }: { username: string }) => ({ cookie: await signIn(t.app, { username }) })
  browsers = { owner: await browse(owner), administrator: await browse(administrator) }
  await aStoredFactor(t.db, owner)
})

const keyOf = ({ key }: { key: string }) => key
const fill = (text: string, place: Place) =>
  text.replace(/:(\w+)/g, (all, name: string) => place[name] ?? all)
const filled = <T extends object>(fields: T, place: Place): T =>
  JSON.parse(fill(JSON.stringify(fields), place))

/** Runs an act, and returns the actions of its events. The first use of a token is an event of its own. */
async function eventsOfAct(act: () => Promise<unknown>): Promise<string[]> {
  const last = await lastEventId(t.db)
  await act()
  const events = await eventsOf(t.db, {}, ['id', 'action'])
  const written = events.filter(({ id }) => BigInt(id) > last).map(({ action }) => action)
  return written.filter((action) => !action.endsWith('first-used')).toSorted()
}

const isOnSite = (url: string) =>
  /^\/(?:admin|accounts|applications|client-documents|invitations|webhooks)(?:\/|$)/.test(url)

async function callEndpoint([endpoint, body, query = '']: Endpoint, place: Place) {
  const [method = '', url = ''] = endpoint.split(' ')
  const isDeletionOfGroup = endpoint === 'DELETE /groups/:group'
  const token = url.startsWith('/user')
    ? await aPersonalToken(t.db, { id: place['accountId'] ?? '' }, { scopes: [...allScopes] })
    : tokens[isOnSite(url) || isDeletionOfGroup ? 'administrator' : 'owner']
  return eventsOfAct(async () => {
    const path = `/api${fill(url, place)}${query}`
    const response = await callApi(t, token, method as Method, path, body && filled(body, place))
    if (response.statusCode >= 300) throw new Error(`${endpoint}: ${response.statusCode} ${response.body}`)
  })
}

async function sendForm([form, fields = {}]: [string, Place?], place: Place) {
  const own = place['cookie'] === undefined ? browsers.owner : place
  const cookie = (isOnSite(form) ? browsers.administrator : own)['cookie'] ?? ''
  const page = await t.app.inject({ url: '/settings/account', headers: { cookie } })
  await setProofAges(t.db, '0')
  return eventsOfAct(async () => {
    const all = { csrf_token: csrfTokenIn(page), ...filled(fields, place) }
    const response = await post(t.app, fill(form, place), cookie, all)
    const isDone = response.statusCode === 303 && !/confirm-access/.test(String(response.headers.location))
    if (!isDone && response.statusCode !== 200)
      throw new Error(`${form}: ${response.statusCode} ${response.body}`)
  })
}

/** Runs a command in this process: a process for each takes longer than all the rest. */
async function runHere(words: string[]): Promise<void> {
  const environment = {
    DATABASE_URL: databaseUrl(t.connection),
    BASE_URL: 'http://localhost',
    DATA_DIR: t.config.dataDir,
  }
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value)
  const output = [process.stdout, process.stderr].map((stream) =>
    vi.spyOn(stream, 'write').mockReturnValue(true),
  )
  try {
    const code = await runProgram(() => makeProgram('0', words[0]), ['node', 'svc', ...words])
    if (code !== 0) throw new Error(`svc ${words.join(' ')}: ${JSON.stringify(output[1]?.mock.calls)}`)
  } finally {
    for (const stream of output) stream.mockRestore()
    vi.unstubAllEnvs()
  }
}

const listOf = <T>(value: T | T[] | undefined, isOne: (value: T | T[]) => value is T): T[] =>
  value === undefined ? [] : isOne(value) ? [value] : value
const endpointsOf = ({ api }: Verb) =>
  listOf<Endpoint>(api, (value): value is Endpoint => typeof value[0] === 'string')
const cases = Object.entries(verbs)

describe('each verb that destroys or weakens something writes exactly its event', () => {
  it.each(
    cases.flatMap(([what, verb]) =>
      endpointsOf(verb).map((endpoint) => [what, endpoint[0], verb, endpoint] as const),
    ),
  )('%s: %s', async (_what, _name, { writes, make }, endpoint) => {
    expect(await callEndpoint(endpoint, await make())).toEqual(writes)
  })

  it.each(
    cases.flatMap(([what, verb]) => (verb.pages ?? []).map((form) => [what, form[0], verb, form] as const)),
  )('%s: the form %s', async (_what, _name, { writes, make }, form) => {
    expect(await sendForm(form, await make())).toEqual(writes)
  })

  it.each(cases.flatMap(([what, verb]) => (verb.command ? [[what, verb.command, verb] as const] : [])))(
    '%s: svc %s',
    async (_what, command, { writes, make }) => {
      const words = fill(command, await make()).split(' ')
      expect(await eventsOfAct(() => runHere(words))).toEqual(writes)
    },
  )
})

describe('what is not in the list of these verbs destroys and weakens nothing', () => {
  const unknown = (all: string[], known: string[], words: Set<string>) =>
    all.filter((one) => !known.includes(one) && !words.has(one.split(/[ /]/).at(-1) ?? '') && !words.has(one))

  it('of the forms', async () => {
    const all = await listForms(t.app, browsers.administrator['cookie'] ?? '')
    const known = cases.flatMap(([, { pages = [] }]) => pages.map(([form]) => form))
    expect(unknown(all, known, harmless.forms)).toEqual([])
    expect(known.filter((form) => !all.includes(form))).toEqual([])
  })

  it('of the endpoints', async () => {
    const { paths } = (await t.app.inject('/api/openapi.json')).json() as { paths: Record<string, object> }
    const shape = (endpoint: string) => endpoint.replaceAll(/:\w+|\{\w+\}/g, ':')
    const all = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods)
        .filter((method) => ['post', 'put', 'patch', 'delete'].includes(method))
        .map((method) => shape(`${method.toUpperCase()} ${path.replace(/^\/api/, '')}`)),
    )
    const known = cases.flatMap(([, verb]) => endpointsOf(verb).map(([endpoint]) => shape(endpoint)))
    expect(unknown(all, known, harmless.endpoints)).toEqual([])
    expect(known.filter((endpoint) => !all.includes(endpoint))).toEqual([])
  })

  it('of the commands', async () => {
    const program = await makeProgram('0')
    const all = program.commands.flatMap((noun) =>
      noun.commands.length === 0
        ? [noun.name()]
        : noun.commands.map((verb) => `${noun.name()} ${verb.name()}`),
    )
    const known = cases.flatMap(([, { command = '' }]) => command.split(' ').slice(0, 2).join(' '))
    expect(unknown(all, known, harmless.commands)).toEqual([])
  })

  it('of the actions that events have', () => {
    const destroying =
      /^(?:delete|purge|quarantine|release|withdraw|remove|reject|decline|revoke|forget|disable|end)|-(?:deleted|removed|disabled|suspended|declined|withdrawn|revoked|ended|unlinked)$/
    const written = new Set(cases.flatMap(([, { writes }]) => writes as string[]))
    const all = [...identityActions, ...Object.keys(registryWords)].filter((action) =>
      destroying.test(action),
    )
    // Jobs write these: see the tests of webhooks and of deleted repositories.
    const ofJobs = ['webhook-disabled', 'purge-repository', 'disable-webhook']
    expect(all.filter((action) => !written.has(action))).toEqual(ofJobs)
  })
})
