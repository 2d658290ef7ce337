import type { LightMyRequestResponse } from 'fastify'
import { beforeAll, describe, expect, it } from 'vitest'
import { makeVerificationToken } from '../../../src/accounts/email-verifications.ts'
import { invite } from '../../../src/accounts/invite.ts'
import { makeResetToken } from '../../../src/accounts/password-resets.ts'
import { operator } from '../../../src/domain/principal.ts'
import { deleteRepository } from '../../../src/groups/group-lifecycle.ts'
import { topicNames } from '../../../src/notifications/topics.ts'
import { anIdentity, aStoredPasskey, removePassword, verifyEmail } from '../../support/account-rows.ts'
import {
  aDeployToken,
  aGroupMember,
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
  csrfTokenIn,
  password,
  signIn,
} from '../../support/actors.ts'
import { registrationFields } from '../../support/admin-actors.ts'
import { useApp } from '../../support/app.ts'
import { aWaitingDocument } from '../../support/document-server.ts'
import { codeOf, enrol, forgetCodes, secretIn } from '../../support/factor-actors.ts'
import { listForms } from '../../support/form-urls.ts'
import { useIdentityProvider, Walker } from '../../support/identity-provider.ts'
import { useMailServer } from '../../support/mail-server.ts'
import { aMirroredArchive, aMirroredPackage, holdBack } from '../../support/mirrored-rows.ts'
import { anApplication, anAuthorization, pixel } from '../../support/oauth-actors.ts'
import { freePort } from '../../support/program.ts'
import { aProject } from '../../support/project-rows.ts'
import { aPackageZip, aPublisher } from '../../support/registry-actors.ts'
import { latestId } from '../../support/rows.ts'
import { aConfirmationLink, setProofAges } from '../../support/session-rows.ts'
import { raiseAlarm, upstreamsHere, useUpstream } from '../../support/upstream.ts'
import { aContestedName, anUpstreamDocument, setPosition, upstreamRows } from '../../support/upstream-rows.ts'

const baseUrl = 'http://localhost'
const mail = await useMailServer()
const acme = useIdentityProvider('acme', await freePort(), baseUrl)
const upstream = useUpstream()
const t = useApp({
  BASE_URL: baseUrl,
  SIGN_UP: 'open',
  ...mail.environment,
  ...acme.environment,
  ...upstreamsHere,
})
const chosen = 'a new and longer password'

/** Somebody who is a site administrator and admin of a group with a repository, in their browser. */
async function aPerson() {
  const account = await anAccount(t.db, { isAdmin: true, email: `${aName('ann')}@example.com` })
  const repository = await aRepository(t.db)
  const { group } = repository
  await aGroupMember(t.db, account, group, 'admin')
  const walker = new Walker(t, await signIn(t.app, account))
  const csrf_token = csrfTokenIn(await walker.open('/settings/account'))
  const send = (url: string, form: Record<string, string> = {}) => walker.post(url, { csrf_token, ...form })
  return {
    account,
    group,
    repository,
    walker,
    send,
    /** The pages of the group and of the repository. */
    ofGroup: `/${group.name}/-`,
    ofRepository: `/${repository.path}/-`,
    sendFile: (url: string, name: string, file: Buffer, fields: [string, string][] = []) => {
      const form = new FormData()
      for (const [key, value] of [['csrf_token', csrf_token] as const, ...fields]) form.append(key, value)
      form.append(name, new Blob([new Uint8Array(file)]), 'file.bin')
      return walker.postFiles(url, form)
    },
  }
}
type Person = Awaited<ReturnType<typeof aPerson>>

/** A browser that is not signed in. */
async function aVisitor() {
  const walker = new Walker(t)
  const csrf_token = csrfTokenIn(await walker.open('/login'))
  return {
    walker,
    send: (url: string, form: Record<string, string>) => walker.post(url, { csrf_token, ...form }),
  }
}

/** The result of a form: the next page shows `notice`, or the response contains `shows`, together with a secret. */
interface Case {
  notice?: string
  shows?: string
  /** Sends the form. The walker is the browser that then opens the next page. */
  act: (person: Person) => Promise<LightMyRequestResponse | { walker: Walker; sent: LightMyRequestResponse }>
}

const leavesNotice = (notice: string, act: Case['act']): Case => ({ notice, act })
const showsNotice = (shows: string, act: Case['act']): Case => ({ shows, act })

const newest = (table: string) => latestId(t.db, table)

/** Publishes acme/lib 1.0.0 in the person's repository, and returns the URL of its pages. */
async function aPackage({ repository }: Person): Promise<string> {
  await (await aPublisher(t, { repository })).push('1.0.0')
  return `/${repository.path}/packages/acme/lib/-`
}

/** Stages acme/lib 1.0.0 for a person with a second factor. Returns the URL of its page. */
async function aStage(person: Person): Promise<string> {
  await aFactor(person)
  await setProofAges(t.db, '1 minute')
  const { id } = (await (await aPublisher(t, person)).stage('1.0.0')).json() as { id: string }
  return `${person.ofRepository}/stages/${id}`
}

const trusted = { provider: 'github', project: 'acme/lib', workflow: 'release.yml' }

const aPublicSource = { url: 'https://1.1.1.1/acme/lib', tags: '*', branches: '*', every: '15' }

/** Adds a Git source. Returns the URL of its page. */
async function aSource({ send, ofRepository }: Person): Promise<string> {
  await send(`${ofRepository}/sources/new`, aPublicSource)
  return `${ofRepository}/sources/${await newest('source')}`
}

async function anUpload({ sendFile, ofRepository }: Person): Promise<string> {
  const file = aPackageZip('acme/lib', { version: '1.0.0' })
  return String((await sendFile(`${ofRepository}/upload`, 'package', file)).headers.location)
}

async function anInvitation({ account, group }: Person, isForGroup = true): Promise<string> {
  const by = { ...operator, accountId: account.id }
  const target = isForGroup ? { groupId: group.id, role: 'guest' as const } : null
  const { url } = await invite(t.db, t.config, by, { email: null, target })
  return url?.split('token=')[1] ?? ''
}

async function anUpstream({ send, ofRepository }: Person): Promise<void> {
  await send(`${ofRepository}/upstreams/new`, { url: upstream.url, name: 'public', mode: 'approved' })
}

const aLinkedPerson = ({ id }: { id: string }) =>
  anIdentity(t.db, { id }, { issuer: acme.issuer, subject: aName('subject'), provider: 'acme' })

async function aFactor({ account, walker }: Person): Promise<string> {
  return (await enrol(t, account, walker.cookie)).secret
}

/** The forms of a place: a group, or a repository. */
function membersAndTokens(urlOf: (person: Person) => string): Record<string, Case[]> {
  const addsMember = (form: string) => [
    leavesNotice('is now guest of', async (person) => {
      const { username } = await anAccount(t.db)
      return person.send(`${urlOf(person)}/${form}`, { username, role: 'guest' })
    }),
  ]
  const makesToken = (form: string) => [
    showsNotice('Copy it now', (person) =>
      person.send(`${urlOf(person)}/${form}`, {
        name: 'ci',
        more_repositories: person.repository.path.split('/')[1] ?? '',
        lifetime_in_days: '30',
      }),
    ),
  ]
  return {
    members: addsMember('members'),
    'members/new': addsMember('members/new'),
    'members/remove': [
      leavesNotice('was removed from', async (person) => {
        const { username } = await anAccount(t.db)
        await person.send(`${urlOf(person)}/members`, { username, role: 'guest' })
        return person.send(`${urlOf(person)}/members/remove`, { username })
      }),
    ],
    'deploy-tokens': makesToken('deploy-tokens'),
    'deploy-tokens/new': makesToken('deploy-tokens/new'),
    'deploy-tokens/revoke': [
      leavesNotice('was revoked', async (person) => {
        await aDeployToken(t.db, person.group, { repositories: [person.repository], madeBy: person.account })
        return person.send(`${urlOf(person)}/deploy-tokens/revoke`, { id: await newest('deploy_token') })
      }),
    ],
  }
}

/** The forms about the webhooks of a place. `urlOf` is the URL of its list. */
function webhooks(urlOf: (person: Person) => string): Record<string, Case[]> {
  const add = (person: Person) => person.send(`${urlOf(person)}/new`, { url: 'https://1.1.1.1/hook' })
  const send = async (person: Person, act: string, form: Record<string, string> = {}) => {
    await add(person)
    return person.send(`${urlOf(person)}/${await newest('webhook')}/${act}`, form)
  }
  return {
    new: [showsNotice('Copy it now', add)],
    ':id/ping': [leavesNotice('The test message is on its way', (person) => send(person, 'ping'))],
    ':id/enabled': [
      leavesNotice('The webhook is disabled', (person) => send(person, 'enabled', { enabled: 'no' })),
      leavesNotice('The webhook is enabled', (person) => send(person, 'enabled', { enabled: 'yes' })),
    ],
    ':id/edit': [
      leavesNotice('The webhook was changed', (person) => send(person, 'edit', { url: 'https://1.1.1.1/2' })),
      showsNotice('Copy it now', (person) => send(person, 'edit', { url: 'https://1.0.0.1/hook' })),
    ],
    ':id/rotate': [showsNotice('Copy it now', (person) => send(person, 'rotate'))],
    ':id/remove': [leavesNotice('The webhook was removed', (person) => send(person, 'remove'))],
    ':id/resend': [
      leavesNotice('The message is sent again', async (person) => {
        await send(person, 'ping')
        const delivery = await newest('webhook_delivery')
        return person.send(`${urlOf(person)}/${await newest('webhook')}/resend`, { delivery })
      }),
    ],
  }
}

const aRule = { patterns: 'acme/old', reason: 'It is old' }
const addRule = (person: Person) => person.send(`${person.ofGroup}/policies/new`, aRule)
const policyForms: Record<string, Case[]> = {
  'policies/new': [leavesNotice('The rule was added', addRule)],
  'policies/:id/edit': [
    leavesNotice('The rule was changed', async (person) => {
      await addRule(person)
      const form = { ...aRule, reason: 'It is too old' }
      return person.send(`${person.ofGroup}/policies/${await newest('policy_rule')}/edit`, form)
    }),
  ],
  'policies/:id/remove': [
    leavesNotice('The rule was removed', async (person) => {
      await addRule(person)
      return person.send(`${person.ofGroup}/policies/${await newest('policy_rule')}/remove`)
    }),
  ],
}

const below = (prefix: string, forms: Record<string, Case[] | string>) =>
  Object.fromEntries(Object.entries(forms).map(([path, cases]) => [`${prefix}${path}`, cases]))

const versions = (act: string, notice: string, before: string[] = []): Case[] => [
  leavesNotice(notice, async (person) => {
    const url = await aPackage(person)
    const fields = { version: '1.0.0', reason: 'It is broken' }
    for (const one of before) await person.send(`${url}/versions/${one}`, fields)
    return person.send(`${url}/versions/${act}`, fields)
  }),
]

/** Every form: what it leads to, or the reason why its next page shows no notice. */
const forms: Record<string, Case[] | string> = {
  ...below(
    '/:group/-/webhooks/',
    webhooks(({ ofGroup }) => `${ofGroup}/webhooks`),
  ),
  ...below(
    '/:group/:name/-/webhooks/',
    webhooks(({ ofRepository }) => `${ofRepository}/webhooks`),
  ),
  ...below(
    '/admin/webhooks/',
    webhooks(() => '/admin/webhooks'),
  ),
  ...below('/:group/-/', {
    ...membersAndTokens(({ ofGroup }) => ofGroup),
    restore: [
      leavesNotice('restored.', async ({ send, group, repository }) => {
        await deleteRepository(t.db, operator, repository)
        return send(`/${group.name}/-/restore`, { name: repository.path.split('/')[1] ?? '' })
      }),
    ],
    leave: [
      leavesNotice('You left', async ({ send, group, ofGroup }) => {
        await aGroupMember(t.db, await anAccount(t.db), group, 'admin')
        return send(`${ofGroup}/leave`)
      }),
    ],
    'projects/new': 'the test of projects sends its file',
    'projects/:project/delete': [
      leavesNotice('The project was deleted', async ({ send, group, ofGroup }) => {
        await aProject(t.db, group, 'shop')
        return send(`${ofGroup}/projects/shop/delete`)
      }),
    ],
    ...policyForms,
    'settings/second-factor': [
      leavesNotice('does not require a second factor', ({ send, ofGroup }) =>
        send(`${ofGroup}/settings/second-factor`, { second_factor: 'optional' }),
      ),
    ],
    invitations: [
      showsNotice('Copy the link now', ({ send, ofGroup }) => send(`${ofGroup}/invitations`)),
      leavesNotice('A mail to ben@example.com is being sent', ({ send, ofGroup }) =>
        send(`${ofGroup}/invitations`, { email: 'ben@example.com' }),
      ),
    ],
    'invitations/new': [
      showsNotice('Copy the link now', ({ send, ofGroup }) => send(`${ofGroup}/invitations/new`)),
    ],
    watch: [
      leavesNotice('You watch', ({ send, ofGroup }) => send(`${ofGroup}/watch`, { watch: 'yes' })),
      leavesNotice('You no longer watch', ({ send, ofGroup }) => send(`${ofGroup}/watch`)),
    ],
    'invitations/withdraw': [
      leavesNotice('The invitation was withdrawn', async (person) => {
        await anInvitation(person)
        return person.send(`${person.ofGroup}/invitations/withdraw`, { id: await newest('invitation') })
      }),
    ],
  }),
  ...below('/:group/:name/-/', {
    ...membersAndTokens(({ ofRepository }) => ofRepository),
    watch: [
      leavesNotice('You watch', ({ send, ofRepository }) => send(`${ofRepository}/watch`, { watch: 'yes' })),
      leavesNotice('You no longer watch', ({ send, ofRepository }) => send(`${ofRepository}/watch`)),
    ],
    settings: [
      leavesNotice('The settings were saved', ({ send, ofRepository }) =>
        send(`${ofRepository}/settings`, { description: 'Ours', visibility: 'private' }),
      ),
    ],
    'settings/rename': [
      leavesNotice('Its old URLs keep working', ({ send, ofRepository }) =>
        send(`${ofRepository}/settings/rename`, { name: aName('new') }),
      ),
    ],
    advisories: 'the test of imported advisories sends its file',
    'settings/retention': [
      leavesNotice('retention rules were saved', ({ send, ofRepository }) =>
        send(`${ofRepository}/settings/retention`, { keep_development: '5' }),
      ),
    ],
    'settings/delete': [
      leavesNotice('deleted', ({ send, ofRepository, repository }) =>
        send(`${ofRepository}/settings/delete`, { path: repository.path }),
      ),
    ],
    upload: 'the next page shows what the upload would publish',
    'upload/:id': [
      leavesNotice('is published', async (person) =>
        person.send(await anUpload(person), { act: 'publish', version: '1.0.0' }),
      ),
      leavesNotice('The upload was discarded', async (person) =>
        person.send(await anUpload(person), { act: 'discard' }),
      ),
    ],
    'stages/:id/release': [
      leavesNotice('acme/lib 1.0.0 is released', async (person) =>
        person.send(`${await aStage(person)}/release`),
      ),
    ],
    'stages/:id/reject': [
      leavesNotice('acme/lib 1.0.0 is rejected', async (person) =>
        person.send(`${await aStage(person)}/reject`),
      ),
    ],
    'trusted-publishers/new': [
      leavesNotice('The trusted publisher was added', ({ send, ofRepository }) =>
        send(`${ofRepository}/trusted-publishers/new`, trusted),
      ),
    ],
    'trusted-publishers/remove': [
      leavesNotice('The trusted publisher was removed', async ({ send, ofRepository }) => {
        await send(`${ofRepository}/trusted-publishers/new`, trusted)
        return send(`${ofRepository}/trusted-publishers/remove`, { id: await newest('trusted_publisher') })
      }),
    ],
    'sources/new': [
      showsNotice('Copy the secret now', ({ send, ofRepository }) =>
        send(`${ofRepository}/sources/new`, aPublicSource),
      ),
    ],
    ...below('sources/:source/', {
      confirm: 'needs an SSH server: see the test of sources over SSH',
      'hook-secret': [
        showsNotice('Copy the secret now', async (person) =>
          person.send(`${await aSource(person)}/hook-secret`),
        ),
        leavesNotice('Hooks now need the secret', async (person) =>
          person.send(`${await aSource(person)}/hook-secret`, { hook_secret: 'of-the-git-server' }),
        ),
      ],
      sync: [
        leavesNotice('svc looks at the Git repository now', async (person) =>
          person.send(`${await aSource(person)}/sync`),
        ),
      ],
      remove: [
        leavesNotice('The Git source was removed', async (person) =>
          person.send(`${await aSource(person)}/remove`),
        ),
      ],
    }),
    ...below('upstreams/', {
      new: [
        leavesNotice('The upstream public was added', ({ send, ofRepository }) =>
          send(`${ofRepository}/upstreams/new`, { url: upstream.url, name: 'public', mode: 'approved' }),
        ),
      ],
      allow: [
        leavesNotice('far/lib 1.0.0 is offered now', async (person) => {
          await anUpstream(person)
          const [row] = await upstreamRows(t.db, person.repository)
          await aMirroredPackage(t.db, person.repository, 'far/lib', { upstreamId: row?.id ?? '' })
          await holdBack(t.db, 'far/lib', ['1.0.0'])
          return person.send(`${person.ofRepository}/upstreams/allow`, { package: 'far/lib' })
        }),
      ],
      set: [
        leavesNotice('The upstream public was changed', async (person) => {
          await anUpstream(person)
          const form = { url: upstream.url, name: 'public', mode: 'automatic' }
          return person.send(`${person.ofRepository}/upstreams/set`, form)
        }),
      ],
      remove: [
        leavesNotice('The upstream public was removed', async (person) => {
          await anUpstream(person)
          return person.send(`${person.ofRepository}/upstreams/remove`, { name: 'public' })
        }),
      ],
      request: [
        leavesNotice('is requested', async (person) => {
          await anUpstream(person)
          upstream.offer('far/lib', ['1.0.0'])
          return person.send(`${person.ofRepository}/upstreams/request`, { package: 'far/lib' })
        }),
      ],
      approve: [
        leavesNotice('Approved: far/lib', async (person) => {
          await anUpstream(person)
          upstream.offer('far/lib', ['1.0.0'])
          return person.send(`${person.ofRepository}/upstreams/approve`, { packages: 'far/lib' })
        }),
      ],
      forget: [
        leavesNotice('The stored bytes of far/lib 1.0.0 are forgotten', async (person) => {
          await anUpstream(person)
          const [row] = await upstreamRows(t.db, person.repository)
          const about = { upstreamId: row?.id ?? '', isApproved: true }
          await aMirroredPackage(t.db, person.repository, 'far/lib', about)
          await anUpstreamDocument(t.db, upstream.url, 'far/lib')
          await aMirroredArchive(t.db, 'far/lib')
          const dist = { type: 'zip', url: `${upstream.url}/lib.zip`, reference: 'a1b2c3d4', shasum: '' }
          upstream.offer('far/lib', [{ version: '1.0.0', dist }])
          await raiseAlarm(t.db, 'far/lib')
          return person.send(`${person.ofRepository}/upstreams/forget`, {
            package: 'far/lib',
            version: '1.0.0',
          })
        }),
      ],
      decide: [
        leavesNotice('far/lib comes from public', async (person) => {
          await anUpstream(person)
          upstream.put('/earlier/packages.json', { packages: [] })
          const earlier = { url: `${upstream.url}/earlier`, name: 'earlier', mode: 'automatic' }
          await person.send(`${person.ofRepository}/upstreams/new`, earlier)
          const rows = await upstreamRows(t.db, person.repository)
          const upstreamId = rows.find(({ name }) => name === 'public')?.id ?? ''
          await setPosition(t.db, upstreamId, 1000)
          await aMirroredPackage(t.db, person.repository, 'far/lib', { upstreamId, isApproved: true })
          await aContestedName(t.db, 'far/lib', 'earlier')
          const decision = { package: 'far/lib', upstream: 'public' }
          return person.send(`${person.ofRepository}/upstreams/decide`, decision)
        }),
      ],
      claim: [
        leavesNotice('The vendor ours belongs to', ({ send, ofRepository }) =>
          send(`${ofRepository}/upstreams/claim`, { vendor: 'ours' }),
        ),
      ],
      release: [
        leavesNotice('no longer belongs to', async ({ send, ofRepository }) => {
          await send(`${ofRepository}/upstreams/claim`, { vendor: 'ours' })
          return send(`${ofRepository}/upstreams/release`, { vendor: 'ours' })
        }),
      ],
    }),
  }),
  ...below('/:group/:name/packages/:vendor/:package/-/', {
    'advisories/new': [
      leavesNotice('published', async (person) =>
        person.send(`${await aPackage(person)}/advisories/new`, { title: 'x', affected_versions: '<2' }),
      ),
    ],
    'advisories/withdraw': [
      leavesNotice('withdrawn', async (person) => {
        const url = `${await aPackage(person)}/advisories`
        const made = await person.send(`${url}/new`, { title: 'x', affected_versions: '<2' })
        const page = await person.walker.open(String(made.headers.location))
        const [, advisory = ''] = /withdraw\?advisory=([\w-]+)/.exec(page.body) ?? []
        return person.send(`${url}/withdraw`, { advisory })
      }),
    ],
    fetch: 'the next page shows the README or the files',
    'versions/abandon': versions('abandon', 'marked as abandoned'),
    'versions/maintain': versions('maintain', 'marked as maintained'),
    'versions/delete': versions('delete', 'deleted'),
    'versions/restore': versions('restore', 'restored', ['delete']),
    'versions/quarantine': versions('quarantine', 'is quarantined'),
    'versions/release': versions('release', 'no longer quarantined', ['quarantine']),
    'versions/review': versions('review', 'are reviewed'),
    'versions/end-review': versions('end-review', 'no longer reviewed', ['review']),
    'versions/only-trusted-publishers': versions(
      'only-trusted-publishers',
      'Only trusted publishers publish',
    ),
    'versions/end-only-trusted-publishers': versions('end-only-trusted-publishers', 'People may publish', [
      'only-trusted-publishers',
    ]),
  }),
  '/device': 'changes nothing: the page that opens asks for the consent',
  '/invitations': [
    leavesNotice('You are now in', async (person) => {
      const token = await anInvitation(person)
      const other = await aPerson()
      return { walker: other.walker, sent: await other.send('/invitations', { token }) }
    }),
    leavesNotice('You have an account already', async (person) =>
      person.send('/invitations', { token: await anInvitation(person, false) }),
    ),
  ],
  '/invitations/account': [
    leavesNotice('was created. You are now in', async (person) => {
      const token = await anInvitation(person)
      const { walker, send } = await aVisitor()
      const form = { username: aName('new'), new_password: chosen, repeated_password: chosen }
      return { walker, sent: await send('/invitations/account', { token, ...form }) }
    }),
  ],
  '/login': 'a sign-in: the next page is the one that required it, and the menu names the account',
  '/login/passkey': 'a sign-in, as /login',
  '/login/second-factor': 'a sign-in, as /login',
  '/login/oidc/:provider/account': [
    leavesNotice('Your account is linked with', async () => {
      const { username } = await anAccount(t.db)
      const subject = aName('subject')
      acme.people.set(subject, { preferred_username: username, name: 'Ann' })
      const walker = new Walker(t)
      const question = String((await walker.signIn(acme, subject)).headers.location)
      const page = await walker.open(question)
      const proof = new URL(question, baseUrl).searchParams.get('proof') ?? ''
      const form = { csrf_token: csrfTokenIn(page), proof, decision: 'link', password }
      return { walker, sent: await walker.post('/login/oidc/acme/account', form) }
    }),
  ],
  '/login/oidc/:provider/confirm': 'the next page is the provider',
  '/login/oidc/:provider/link': [
    leavesNotice('Your account is linked with', async ({ walker, send }) => {
      const subject = aName('subject')
      acme.people.set(subject, { name: 'Ann' })
      const start = await send('/login/oidc/acme/link')
      return walker.open(await walker.signInThere(start, subject))
    }),
  ],
  '/logout': [leavesNotice('You are signed out', ({ send }) => send('/logout'))],
  '/new/group': [leavesNotice('created', ({ send }) => send('/new/group', { name: aName('new') }))],
  '/new/repository': [
    leavesNotice('created', ({ send, group }) =>
      send('/new/repository', { group: group.name, name: 'new', visibility: 'private' }),
    ),
  ],
  '/password-reset': [
    showsNotice('Your password was changed', async ({ account }) => {
      const token = (await makeResetToken(t.db, operator, account.id)) ?? ''
      const { walker, send } = await aVisitor()
      const form = { token, new_password: chosen, repeated_password: chosen }
      return { walker, sent: await send('/password-reset', form) }
    }),
  ],
  '/password-reset/request': [
    showsNotice('you will get a mail', async ({ account }) => {
      const { walker, send } = await aVisitor()
      return { walker, sent: await send('/password-reset/request', { login: account.username }) }
    }),
  ],
  '/sign-up': [
    showsNotice('You get a mail at', async () => {
      const { walker, send } = await aVisitor()
      return { walker, sent: await send('/sign-up', { email: `${aName('new')}@example.com` }) }
    }),
  ],
  ...below('/settings/account/', {
    password: [
      leavesNotice('Your password was changed', ({ send }) => {
        const form = { current_password: password, new_password: chosen, repeated_password: chosen }
        return send('/settings/account/password', form)
      }),
    ],
    profile: [
      leavesNotice('Your profile was saved', ({ send }) =>
        send('/settings/account/profile', { display_name: 'Ann' }),
      ),
    ],
    'sign-in': [
      leavesNotice('Your username and email were saved', ({ send }) =>
        send('/settings/account/sign-in', { username: aName('new'), email: '', current_password: password }),
      ),
    ],
    verification: [
      leavesNotice('The mail is being sent', ({ send }) => send('/settings/account/verification')),
    ],
    'revoke-all': [leavesNotice('Revoked: 0 tokens', ({ send }) => send('/settings/account/revoke-all'))],
    'sign-out-everywhere': [
      leavesNotice('You are signed out', ({ send }) => send('/settings/account/sign-out-everywhere')),
    ],
    'identities/unlink': [
      leavesNotice('no longer linked', async ({ account, send }) => {
        await aLinkedPerson(account)
        return send('/settings/account/identities/unlink', { issuer: acme.issuer })
      }),
    ],
    delete: [
      leavesNotice('Your account was deleted', ({ account, send }) =>
        send('/settings/account/delete', {
          username: account.username,
          current_password: password,
          leave_groups: 'yes',
        }),
      ),
    ],
  }),
  '/settings/authorizations/end': [
    leavesNotice('has ended', async ({ account, send }) => {
      const { id } = await anAuthorization(t.db, account, await anApplication(t.db))
      return send('/settings/authorizations/end', { grant: id })
    }),
  ],
  '/settings/authorizations/withdraw': [
    leavesNotice('is withdrawn', async ({ account, send }) => {
      const { id } = await anAuthorization(t.db, account, await anApplication(t.db))
      return send('/settings/authorizations/withdraw', { authorization: id })
    }),
  ],
  '/settings/confirm-access': [
    leavesNotice('please send the form again', ({ send }) =>
      send('/settings/confirm-access', { form: 'lost', current_password: password }),
    ),
  ],
  '/settings/confirm-access/send-link': [
    leavesNotice('A link was sent to', async ({ account, send }) => {
      await removePassword(t.db, account)
      await verifyEmail(t.db, account)
      return send('/settings/confirm-access/send-link')
    }),
  ],
  '/settings/confirm-access/link': [
    leavesNotice('You can continue now', async ({ account, send }) => {
      await aConfirmationLink(t.db, account, account.username)
      return send('/settings/confirm-access/link', { token: account.username })
    }),
  ],
  '/settings/notifications': [
    leavesNotice('Your notifications were saved', ({ send }) => {
      const chosen = Object.fromEntries(topicNames.map((topic) => [topic, 'daily']))
      return send('/settings/notifications', { ...chosen, digest_hour: '7' })
    }),
  ],
  '/unsubscribe': 'the page says what no longer comes',
  '/settings/email-verification': [
    leavesNotice('Your email address is verified', async ({ account, send }) => {
      const made = await makeVerificationToken(t.db, account.id)
      return send('/settings/email-verification', { token: made?.token ?? '' })
    }),
  ],
  ...below('/settings/second-factor/', {
    totp: 'the next page is the second step of adding an app',
    'totp/confirm': [
      showsNotice('Copy them now', async ({ walker, send }) => {
        await send('/settings/second-factor/totp')
        const secret = secretIn(await walker.open('/settings/second-factor/totp'))
        return send('/settings/second-factor/totp/confirm', { code: codeOf(secret) })
      }),
    ],
    'totp/replace': [
      leavesNotice('The authenticator app was replaced', async (person) => {
        await aFactor(person)
        await setProofAges(t.db, '1 minute')
        const page = await person.walker.open('/settings/second-factor/totp/replace')
        const [, replacement = ''] = /name="replacement" value="([^"]+)"/.exec(page.body) ?? []
        const form = { replacement, code: codeOf(secretIn(page)) }
        return person.send('/settings/second-factor/totp/replace', form)
      }),
    ],
    'totp/remove': [
      leavesNotice('The authenticator app was removed', async (person) => {
        const secret = await aFactor(person)
        await forgetCodes(t, person.account)
        const form = { current_password: password, code: codeOf(secret) }
        return person.send('/settings/second-factor/totp/remove', form)
      }),
    ],
    'recovery-codes': [
      showsNotice('Copy them now', async (person) => {
        await aFactor(person)
        return person.send('/settings/second-factor/recovery-codes')
      }),
    ],
    passkeys: 'needs an authenticator: see the test of passkeys in Chromium',
    'passkeys/remove': [
      leavesNotice('The passkey was removed', async ({ account, send }) => {
        const id = await aStoredPasskey(t.db, account)
        return send('/settings/second-factor/passkeys/remove', { id })
      }),
    ],
  }),
  '/settings/applications/new': 'the page shows the text that the person sends',
  '/settings/sessions/end': [
    leavesNotice('One session has ended', async ({ account, walker, send }) => {
      await signIn(t.app, account)
      const { body } = await walker.open('/settings/sessions')
      const [, session = ''] = /sessions\/end\?session=([0-9a-f]{64})"/.exec(body) ?? []
      return send('/settings/sessions/end', { session })
    }),
    leavesNotice('There was no session to end', ({ send }) => send('/settings/sessions/end')),
  ],
  '/settings/sessions/end-others': [
    leavesNotice('2 sessions have ended', async ({ account, send }) => {
      await signIn(t.app, account)
      await signIn(t.app, account)
      return send('/settings/sessions/end-others')
    }),
  ],
  ...Object.fromEntries(
    ['/settings/tokens', '/settings/tokens/new'].map((url) => [
      url,
      [
        showsNotice('Copy it now', ({ send }) =>
          send(url, { name: 'ci', preset: 'pull', resource_scope: 'all', lifetime_in_days: '30' }),
        ),
      ],
    ]),
  ),
  '/settings/tokens/revoke': [
    leavesNotice('The token ci was revoked', async ({ account, send }) => {
      await aPersonalToken(t.db, account, { name: 'ci' })
      return send('/settings/tokens/revoke', { id: await newest('personal_token') })
    }),
  ],
  ...administration(),
}

/** The forms below /admin. */
function administration(): Record<string, Case[] | string> {
  const ofAccount =
    (path: string, form: Record<string, string>, arrange?: typeof aLinkedPerson) =>
    async ({ send }: Person) => {
      const account = await anAccount(t.db, { email: `${aName('ben')}@example.com` })
      await arrange?.(account)
      return send(`/admin/accounts/${account.username}${path}`, form)
    }
  const ofApplication =
    (path: string, form: Record<string, string>) =>
    async ({ send }: Person) =>
      send(`/admin/applications/${(await anApplication(t.db)).clientId}${path}`, form)
  return {
    ...Object.fromEntries(
      ['/admin/accounts', '/admin/accounts/-/new'].map((url) => [
        url,
        [showsNotice('The account was created', ({ send }) => send(url, { username: aName('new') }))],
      ]),
    ),
    ...below('/admin/accounts/:username', {
      '': [leavesNotice('is disabled', ofAccount('', { act: 'disable' }))],
      '/details': [
        leavesNotice('The account is changed', ({ send, account }) =>
          send(`/admin/accounts/${account.username}/details`, { username: aName('new') }),
        ),
      ],
      '/delete': [
        leavesNotice('is deleted', async ({ send }) => {
          const { username } = await anAccount(t.db)
          return send(`/admin/accounts/${username}/delete`, { confirmed: username })
        }),
      ],
      '/identities': [
        leavesNotice('no longer linked', ofAccount('/identities', { issuer: acme.issuer }, aLinkedPerson)),
      ],
      '/password': [showsNotice('The password was changed', ofAccount('/password', {}))],
      '/reset-link': [showsNotice('Copy the link now', ofAccount('/reset-link', {}))],
      '/verification-link': [showsNotice('Copy the link now', ofAccount('/verification-link', {}))],
      '/sessions/end': [
        leavesNotice('has ended', async ({ send, walker }) => {
          const account = await anAccount(t.db)
          await signIn(t.app, account)
          const url = `/admin/accounts/${account.username}`
          const { body } = await walker.open(url)
          const [, session = ''] = /sessions\/end\?session=([0-9a-f]{64})"/.exec(body) ?? []
          return send(`${url}/sessions/end`, { session })
        }),
      ],
      '/tokens/revoke': [
        leavesNotice('was revoked', async ({ send }) => {
          const account = await anAccount(t.db)
          await aPersonalToken(t.db, account)
          const form = { id: await newest('personal_token') }
          return send(`/admin/accounts/${account.username}/tokens/revoke`, form)
        }),
      ],
    }),
    '/admin/invitations': [
      showsNotice('Copy the link now', ({ send }) => send('/admin/invitations')),
      leavesNotice('A mail to', ({ send }) => send('/admin/invitations', { email: 'ben@example.com' })),
    ],
    '/admin/invitations/new': [
      showsNotice('Copy the link now', ({ send }) => send('/admin/invitations/new')),
    ],
    '/admin/invitations/withdraw': [
      leavesNotice('The invitation was withdrawn', async (person) => {
        await anInvitation(person, false)
        return person.send('/admin/invitations/withdraw', { id: await newest('invitation') })
      }),
    ],
    '/admin/applications/documents/:id': [
      leavesNotice('Helper is rejected', async ({ send }) => {
        const { id } = await aWaitingDocument(t.db)
        return send(`/admin/applications/documents/${id}`, { act: 'reject', reason: '' })
      }),
    ],
    '/admin/applications/new/request': 'the page shows the form, filled in',
    '/admin/applications/new': [
      showsNotice('Copy it now', ({ sendFile }) => {
        const fields = Object.entries({ ...registrationFields, scope: 'account-profile:r' })
        return sendFile('/admin/applications/new', 'logo', pixel, fields)
      }),
    ],
    ...below('/admin/applications/:clientId', {
      '': [leavesNotice('is suspended', ofApplication('', { act: 'suspend', only_here: 'yes' }))],
      '/secret': [showsNotice('Copy it now', ofApplication('/secret', { overlap_seconds: '0' }))],
      '/edit': [
        leavesNotice('The application was changed', async ({ sendFile }) => {
          const { clientId } = await anApplication(t.db)
          const fields = Object.entries({
            ...registrationFields,
            name: 'Changed Bot',
            scope: 'account-profile:r',
          })
          return sendFile(`/admin/applications/${clientId}/edit`, 'logo', pixel, fields)
        }),
      ],
      '/delete': [
        leavesNotice('is deleted', async ({ send }) => {
          const { clientId, name } = await anApplication(t.db)
          return send(`/admin/applications/${clientId}/delete`, { confirmed: name })
        }),
      ],
    }),
    '/admin/groups/rename': [
      leavesNotice('is now', ({ send, group }) =>
        send('/admin/groups/rename', { group: group.name, name: aName('new') }),
      ),
    ],
    '/admin/groups/delete': [
      leavesNotice('is deleted', ({ send, group }) =>
        send('/admin/groups/delete', { group: group.name, confirmed: group.name, with_repositories: 'yes' }),
      ),
    ],
  }
}

const noticesIn = ({ body }: LightMyRequestResponse) =>
  [...body.matchAll(/<p class="notice" role="status">([\s\S]*?)<\/p>/g)].map(([, words]) => words)

/** Follows the redirects of this site, as a browser does. Returns the page and its URL. */
async function follow(walker: Walker, sent: LightMyRequestResponse) {
  let [page, url] = [sent, '']
  for (let steps = 0; steps < 5 && page.statusCode === 303; steps += 1) {
    url = String(page.headers.location).replace(/#.*/, '')
    page = await walker.open(url)
  }
  return { page, url }
}

describe('the page after a form', () => {
  let found: string[]
  beforeAll(async () => {
    const admin = await anAccount(t.db, { isAdmin: true })
    found = await listForms(t.app, await signIn(t.app, admin))
  })

  it('is decided for every form', () => {
    expect(Object.keys(forms).toSorted()).toEqual(found.toSorted())
  })

  const cases = Object.entries(forms).flatMap(([url, decided]) =>
    typeof decided === 'string' ? [] : decided.map((one) => [url, one] as const),
  )
  it.each(cases.map(([url, one]) => [url, one.notice ?? one.shows ?? '', one] as const))(
    'of %s says once: %s',
    async (_url, words, { notice, act }) => {
      const person = await aPerson()
      const done = await act(person)
      const { walker, sent } = 'sent' in done ? done : { walker: person.walker, sent: done }
      expect(sent.statusCode).toBe(notice === undefined ? 200 : 303)
      const { page, url } = await follow(walker, sent)
      expect(page.statusCode).toBe(200)
      expect(noticesIn(page)).toEqual([expect.stringContaining(words)])
      // A response that is no redirect cannot be opened again.
      if (notice !== undefined) expect(noticesIn(await walker.open(url))).toEqual([])
    },
  )
})
