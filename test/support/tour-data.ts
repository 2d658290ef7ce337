import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type pg from 'pg'
import { insertInvitation } from '../../src/accounts/invitations.ts'
import type { JsonObject } from '../../src/composer/manifest-json.ts'
import { projectRoot, readConfig } from '../../src/config.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret, makeOpaqueId } from '../../src/domain/secrets.ts'
import { deleteRepository } from '../../src/groups/group-lifecycle.ts'
import { signUnsubscription } from '../../src/notifications/unsubscribe-link.ts'
import { setWatching, setWatchingGroup } from '../../src/notifications/watching.ts'
import { setApplicationStatus } from '../../src/oauth/applications.ts'
import { registerUnreviewed, rejectDocument } from '../../src/oauth/client-documents.ts'
import { insertDeviceRequest } from '../../src/oauth/device-requests.ts'
import { rejectStage, releaseStage } from '../../src/packages/stages/release.ts'
import { type Downloader, saveDownloads } from '../../src/packages/tables/recorded-downloads.ts'
import { countSiteDays } from '../../src/packages/tables/site-days.ts'
import { findStage } from '../../src/packages/tables/staged-versions.ts'
import { addPolicyRule } from '../../src/projects/policies.ts'
import { addPublisher, noteRefusal } from '../../src/publishers/trusted-publishers.ts'
import { packDocument } from '../../src/upstreams/documents/packed-content.ts'
import { readDocument, type UpstreamDocument } from '../../src/upstreams/documents/read-document.ts'
import { aDeployToken, aGroup, aGroupMember, anAccount, aPersonalToken, aRepository } from './actors.ts'
import {
  aWaitingDocument,
  documentOf,
  documentRedirect,
  documentsHere,
  sendDocument,
} from './document-server.ts'
import { sumUpDownloads } from './download-rows.ts'
import { type ApplicationActor, aLaterGrant, anApplication, anAuthorization } from './oauth-actors.ts'
import { aLogoutFailure } from './openid-rows.ts'
import { basic } from './registry-actors.ts'
import { aStoredWebhook } from './webhook-rows.ts'
import { aZip } from './zip.ts'

/** The data on the pages of a tour, for their URLs. */
export interface TourData {
  /** An approved application that asks for chosen repositories. */
  application: ApplicationActor
  pending: ApplicationActor
  /** An application that signs people in, and does not accept logout tokens. */
  portal: ApplicationActor
  /** An authorization with more grants than one page shows. */
  many: string
  /** The code of a device that waits for a decision. */
  userCode: string
  /** The token of an open invitation. */
  invitation: string
  /** The token that ends mails about releases for otto. */
  unsubscription: string
  /** The ids of staged versions: one with changes, the first of a package, and a released one. */
  stages: { waiting: string; first: string; released: string }
  /** The ids of Git sources: one with many tags, one that fails, and one whose SSH server nobody has confirmed. */
  sources: { healthy: string; failing: string; unconfirmed: string }
  /** The client ids of applications with a document: two without a review, and one whose redirect URI has changed. */
  documents: { unreviewed: string; local: string; changed: string }
  /** The ids of documents: a new one that waits, a changed one, and a rejected one. */
  waiting: { fresh: string; changed: string; rejected: string }
}

/** The settings of a server whose pages have all parts: another way to sign in, and open sign-up. */
export const tourEnvironment = {
  CLIENT_METADATA_DOCUMENTS: 'open',
  ...documentsHere,
  OIDC_ACME_ISSUER: 'https://id.example.com',
  OIDC_ACME_CLIENT_ID: 'svc',
  OIDC_ACME_CLIENT_SECRET: 'secret',
  SIGN_UP: 'open',
  // Nothing listens there: mails stay in the queue.
  SMTP_URL: 'smtp://127.0.0.1:9',
  MAIL_FROM: 'svc@example.com',
  SITE_CONTACT: 'help@example.com',
  TRUSTED_ROOT_FILE: join(projectRoot, 'test/fixtures/trusted-root.json'),
}

const manifests: Record<string, { description: string } & Record<string, unknown>> = {
  'acme/billing': {
    description: 'Invoices, taxes and payments',
    keywords: ['invoice', 'tax', 'payment'],
    homepage: 'https://billing.example.com',
    authors: [{ name: 'Ann Berger' }],
    require: { php: '>=8.2', 'acme/money': '^2.0', 'psr/log': '^3.0' },
    'require-dev': { 'phpunit/phpunit': '^11' },
    support: { issues: 'https://billing.example.com/issues', docs: 'https://billing.example.com/docs' },
  },
  'acme/money': { description: 'Amounts and currencies that never lose a cent', require: { php: '>=8.1' } },
  'acme/mailer': { description: 'Sends mails from templates, in the background', require: { php: '>=8.1' } },
}

/** Sends lock files of two projects, as their CI does. */
async function addLocks(baseUrl: string, token: string): Promise<void> {
  const packages = (version: string) => [
    { name: 'acme/money', version, license: ['MIT'] },
    { name: 'psr/log', version: '3.0.0', license: ['MIT'] },
    { name: 'old/library', version: '1.4.0', abandoned: 'acme/money' },
  ]
  const locks = {
    'shop/lock?environment=production&commit=9fceb02d': '1.0.0',
    'shop/lock?environment=staging': '2.0.0',
    'blog/lock': '1.1.0',
  }
  for (const [place, version] of Object.entries(locks)) {
    const response = await fetch(`${baseUrl}/api/groups/acme/projects/${place}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify({ packages: packages(version) }),
    })
    if (response.status !== 201) throw new Error(await response.text())
  }
}

/** Fills a server with the data of a small team, through its database and its registry. */
export async function makeTourData({ db, baseUrl }: { db: pg.Pool; baseUrl: string }): Promise<TourData> {
  const ann = await anAccount(db, { username: 'ann', displayName: 'Ann Berger', email: 'ann@example.com' })
  const bob = await anAccount(db, {
    username: 'bob',
    displayName: 'Bob Ó Súilleabháin',
    email: 'bob@example.com',
  })
  await anAccount(db, { username: 'root', isAdmin: true })
  await anAccount(db, { username: 'nora' })
  const otto = await anAccount(db, { username: 'otto' })
  const group = await aGroup(db, 'acme')
  const repository = await aRepository(db, { group, name: 'php', description: 'Packages of all teams' })
  await deleteRepository(db, operator, await aRepository(db, { group, name: 'old-libraries' }))
  await aRepository(db, { group, name: 'open', visibility: 'public', description: 'What everybody may use' })
  await aRepository(db, { group, name: 'empty' })
  const long = await aGroup(db, 'a-group-with-a-name-as-long-as-a-name-of-a-group-can-be-64-chars')
  await aGroupMember(db, otto, long, 'admin')
  await aGroupMember(db, bob, long, 'guest')
  await aGroupMember(db, ann, group, 'admin')
  await aGroupMember(db, bob, group, 'developer')
  await setWatching(db, ann.id, repository.id, true)
  await setWatchingGroup(db, ann.id, group.id, true)
  const token = await aPersonalToken(db, ann, { name: 'build server', expiry: { inDays: 5 } })
  await aPersonalToken(db, ann, {
    name: 'laptop',
    scopes: ['registry-package:r', 'registry-manage:r', 'account-profile:r'],
    resourceScope: 'specified',
    repositoryIds: [repository.id],
    expiry: 'never',
  })
  await aDeployToken(db, group, { name: 'staging', madeBy: ann })
  await aDeployToken(db, group, {
    name: 'A-long-name-'.repeat(8),
    repositories: [repository],
    right: 'read',
    madeBy: ann,
  })
  const push = pusher(baseUrl, token)
  for (const name of Object.keys(manifests)) {
    for (const version of ['1.0.0', '1.1.0', '2.0.0', '2.1.0-beta.1']) {
      await push('acme/php', name, version, tourZip(name, version))
    }
  }
  for (const build of [7, 8, 9])
    await push(
      'acme/php',
      'acme/billing',
      `3.0.0-build.${build}`,
      tourZip('acme/billing', `3.0.0-build.${build}`),
    )
  await push('acme/open', 'acme/money', '2.0.0', tourZip('acme/money', '2.0.0'))
  const stages = await addStages(
    db,
    (name, version, body) => push('acme/php', name, version, body, 'stage'),
    baseUrl,
  )
  await addPublishers(db, repository)
  const sources = await addSources(db, repository.id, { stage: stages.waiting, madeBy: ann.id })
  await addLocks(baseUrl, token)
  const rules = [
    { kind: 'packages', patterns: ['old/*', 'psr/log:<2.0'], reason: 'It is no longer supported' },
    { kind: 'licenses', patterns: ['GPL-*'], reason: 'We ship closed source: ask legal@example.com' },
  ] as const
  for (const rule of rules)
    await addPolicyRule(db, { groupId: group.id, by: operator }, { ...rule, patterns: [...rule.patterns] })
  await aStoredWebhook(db, repository.id)
  await addAttestations(db, repository, stages.waiting)
  await age(db)
  await addDownloads(db, repository.id, [
    { kind: 'session', id: bob.id, accountId: bob.id },
    { kind: 'anonymous', id: '0', accountId: null },
  ])
  await addUpstream(db, repository.id, bob.id)
  const logo = await readFile('views/demo-logo.png')
  const application = await anApplication(db, {
    name: 'Deploy Robot',
    description: 'Installs and publishes your packages',
    resourceScope: 'specified',
    logo,
  })
  const given = await anAuthorization(db, ann, application, { repositories: [repository] })
  await aLaterGrant(db, given)
  const portal = await anApplication(db, {
    name: 'Acme Portal',
    scopes: ['openid', 'profile', 'email', 'registry-package:r'],
    backchannelLogoutUri: 'https://portal.example.com/logout',
    developer: 'ann',
    logo,
  })
  await aLogoutFailure(db, portal)
  const signedIn = await anAuthorization(db, ann, portal, { scopes: ['openid', 'profile'] })
  await aLaterGrant(db, signedIn, { scopes: ['registry-package:r'] })
  const program = await anApplication(db, {
    name: 'Acme command line',
    scopes: ['registry-package:rw'],
    isPublic: true,
    isDevice: true,
    redirectUri: 'http://127.0.0.1/',
    logo,
  })
  const machines = await anAuthorization(db, ann, program)
  for (const deviceIp of ['203.0.113.7', '2001:db8:1234:5678:9abc:def0:1234:5678', '198.51.100.23'])
    await aLaterGrant(db, machines, { deviceIp, isUsed: deviceIp !== '198.51.100.23' })
  const indexer = await anApplication(db, { name: 'Acme Indexer', scopes: ['registry-package:r'], logo })
  const many = await anAuthorization(db, ann, indexer)
  for (let n = 0; n < 20; n += 1) await aLaterGrant(db, many)
  const tool = await anApplication(db, {
    name: 'Deploy Tool',
    description: 'Publishes from a terminal',
    resourceScope: 'specified',
    isDevice: true,
    logo,
  })
  const userCode = await insertDeviceRequest(db, {
    deviceHash: hashSecret(makeOpaqueId()),
    applicationId: tool.id,
    scopes: tool.scopes,
    resourceScope: tool.resourceScope,
    resources: null,
    ip: '203.0.113.7',
  })
  const developer = 'ann'
  const pending = await anApplication(db, { name: 'Report Writer', status: 'pending', logo, developer })
  const declined = await anApplication(db, { name: 'Old Robot', status: 'pending', logo, developer })
  await setApplicationStatus(db, declined.clientId, 'declined', 'Its website is gone.')
  const invitation = makeOpaqueId()
  await insertInvitation(db, operator, {
    madeBy: 'account',
    inviterId: ann.id,
    email: null,
    isSentByMail: false,
    token: invitation,
    target: { groupId: group.id, role: 'developer' },
  })
  const unsubscription = await signUnsubscription(db, otto.id, 'releases')
  const documents = await serveDocuments()
  const reviewed = { logo, isPublic: true, exactRedirect: true }
  await anApplication(db, {
    ...reviewed,
    clientId: documents.changed,
    name: 'Moving Agent',
    redirectUri: movedUris[0],
    redirectUris: [movedUris[0]],
  })
  await registerUnreviewed(
    db,
    operator,
    {
      clientId: documents.unreviewed,
      name: 'Example Agent',
      redirectUris: [documentRedirect],
      scopes: application.scopes,
    },
    ann.id,
  )
  const changed = await aWaitingDocument(db, {
    clientId: documents.changed,
    name: 'Moving Agent',
    redirectUris: movedUris,
  })
  const fresh = await aWaitingDocument(db, { name: 'Reading Agent' })
  const { id: rejected } = await aWaitingDocument(db, { name: 'Strange Agent' })
  await rejectDocument(db, operator, rejected, 'Nobody here knows it.')
  const waiting = { fresh: fresh.id, changed: changed.id, rejected }
  return {
    application,
    portal,
    many: many.id,
    pending,
    userCode,
    invitation,
    unsubscription,
    stages,
    sources,
    documents,
    waiting,
  }
}

/** The redirect URIs of an application: the reviewed one, and a new one. */
const movedUris = ['https://old.example.com/callback', 'https://agent.elsewhere.example/callback'] as [
  string,
  string,
]

/** Runs a server of client metadata documents until the process ends. Returns their URLs. */
async function serveDocuments(): Promise<TourData['documents']> {
  const members = {
    unreviewed: { client_name: 'Example Agent' },
    local: { client_name: 'Local Agent', redirect_uris: ['http://127.0.0.1:33418/callback'] },
    changed: { client_name: 'Moving Agent', redirect_uris: movedUris, scope: 'account-profile:r' },
  }
  const server = createServer((request, response) => {
    const name = request.url?.slice(1) as keyof typeof members
    sendDocument(response, documentOf(`http://${request.headers.host}${request.url}`, members[name]))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { unreviewed: `${base}/unreviewed`, local: `${base}/local`, changed: `${base}/changed` }
}

function pusher(baseUrl: string, token: string) {
  return async (
    path: string,
    name: string,
    version: string,
    body: Buffer,
    start: 'upload' | 'stage' = 'upload',
  ): Promise<{ id?: string }> => {
    const response = await fetch(`${baseUrl}/${path}/-/packages/${start}/${name}/${version}`, {
      method: 'PUT',
      headers: { authorization: basic(token) },
      body: new Uint8Array(body),
    })
    if (response.status !== 201 && response.status !== 202)
      throw new Error(`${name} ${version}: ${response.status}`)
    return (await response.json()) as { id?: string }
  }
}

/** A staged version in each state, and the first version of a package. Returns their ids. */
async function addStages(
  db: pg.Pool,
  stage: (name: string, version: string, body: Buffer) => Promise<{ id?: string }>,
  baseUrl: string,
): Promise<{ waiting: string; first: string; released: string }> {
  const plugin = {
    type: 'composer-plugin',
    bin: ['bin/install'],
    require: { php: '>=8.2', 'composer-plugin-api': '^2.0', 'acme/money': '^2.0' },
    scripts: { 'post-install-cmd': 'php bin/install --quiet' },
    extra: { class: 'Acme\\Plugin', major: '2' },
  }
  const files = { 'bin/install': '#!/usr/bin/env php\n<?php\n', 'src/Plugin.php': '<?php\n' }
  const add = async (name: string, version: string, more = {}, added = {}) =>
    (await stage(name, version, tourZip(name, version, more, added))).id ?? ''
  const released = await add('acme/money', '2.1.0')
  const rejected = await add('acme/money', '2.2.0')
  const first = await add('acme/shipping', '1.0.0', { scripts: { test: 'phpunit' } })
  const waiting = await add('acme/billing', '2.2.0', plugin, files)
  const decide = async (id: string) => {
    const found = await findStage(db, id)
    if (!found) throw new Error(`no stage ${id}`)
    return { stage: found, by: operator, baseUrl }
  }
  await releaseStage(db, await decide(released))
  await rejectStage(db, { ...(await decide(rejected)), reason: 'It has no tests.' })
  return { waiting, first, released }
}

/** A version of a package, with a README that shows what READMEs can have. */
export function tourZip(
  name: string,
  version: string,
  more: object = {},
  files: Record<string, string> = {},
): Buffer {
  const [, short = ''] = name.split('/')
  const manifest = { ...manifests[name], name, license: 'MIT', autoload: { 'psr-4': { 'Acme\\': 'src/' } } }
  const [major] = version.split('.')
  const conflict = major === '1' ? {} : { conflict: { 'acme/money': '<2.0' } }
  return aZip({
    'composer.json': JSON.stringify({ ...manifest, ...conflict, extra: { major }, ...more }, null, 4),
    'README.md': readme(name, short),
    'logo.svg':
      '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><circle r="20" cx="20" cy="20" fill="#2a7fc9"/></svg>',
    'CHANGELOG.md': changelog,
    'src/Lib.php': `<?php\n\nnamespace Acme;\n\nfinal class Lib\n{\n    const VERSION = '${version}';\n    const LONG = '${'long '.repeat(40)}';\n}\n`,
    ...(major === '2' && { 'src/Money.php': '<?php\n' }),
    ...files,
  })
}

const readme = (name: string, short: string) => `# ${name}

${manifests[name]?.description ?? 'A package'}.

<p align="center"><a href="src/Lib.php"><img src="logo.svg" width="40" alt="Logo"></a></p>

![Build](https://ci.test/badge.svg) · [Use](#use)

<details><summary>Why?</summary>

<table><tr><th>Amount</th><td>Press <kbd>Esc</kbd></td></tr></table>

</details>

## Use

\`\`\`php
<?php // Counts in cents
$${short} = new ${short[0]?.toUpperCase()}${short.slice(1)}(from: 1, name: "one");
\`\`\`

| Version | PHP | Supported |
|---|---|---|
| 2.x | 8.2 | yes |
| 1.x | 8.1 | security only |

- [x] Tests
- [ ] Translations

> See [the class](src/Lib.php) and [the site](https://acme.test).

> [!WARNING]
> Version 1.x counts in floats.
`

const changelog = `# Changelog

## [2.0.0] - 2026-03-01

### Changed
- Counts in cents, see [the class](src/Lib.php)
- Needs PHP 8.2

## [1.1.0] - 2026-02-01

### Added
- Taxes of more countries

## [1.0.0] - 2026-01-01
`

/** SQL that leaves out the packages of the demo: the server of `npm run screenshots` has them too. */
const isOfTour = `package_id not in (select id from package where name like 'demo/%')`

/** Spreads what was published over the last months, with downloads, a withdrawn version and an advisory. */
async function age(db: pg.Pool): Promise<void> {
  await db.query(
    `update package_version set published_at = now() - make_interval(days => 200 - 3 * id::integer) where ${isOfTour}`,
  )
  await db.query(
    `insert into package_download (version_id, day, count)
     select v.id, current_date - i, (i * 7 + v.id * 3) % 40 + 3
       from package_version v, generate_series(0, 60) i where ${isOfTour}`,
  )
  await sumUpDownloads(db)
  await countSiteDays(db)
  await db.query(
    `update package_version v set quarantined_at = now(), quarantine_reason = 'Contains a credential'
       from package p where p.id = v.package_id and p.name = 'acme/mailer' and v.version = '1.0.0'`,
  )
  await db.query(
    `update package_version v set deleted_at = now()
       from package p where p.id = v.package_id and p.name = 'acme/mailer' and v.version = '1.1.0'`,
  )
  await db.query(
    `insert into advisory (advisory_id, package_id, title, affected_versions, cve, severity)
     select 'SVC-2026-0001', id, 'Amounts are rounded twice', '<1.1.0', 'CVE-2026-12345', 'high'
       from package where name = 'acme/money' limit 1`,
  )
  await db.query(
    `update package set abandoned_at = now(), replacement = 'acme/billing' where name = 'acme/mailer'`,
  )
}

/** Lets each of the downloaders have downloaded two versions. */
async function addDownloads(db: pg.Pool, repositoryId: string, downloaders: Downloader[]): Promise<void> {
  const version = { repositoryId, packageName: 'acme/billing' }
  await saveDownloads(
    db,
    downloaders.flatMap((downloader) => [
      { ...version, version: '1.0.0', downloader, count: 3 },
      { ...version, version: '2.0.0', downloader, count: 1 },
    ]),
  )
}

/** Adds a job that stages, and one that publishes and whose last exchange was refused. */
async function addPublishers(db: pg.Pool, repository: { id: string }): Promise<void> {
  const about = { repositoryId: repository.id, by: operator }
  const context = { config: readConfig({}), db }
  const packages = ['acme/billing']
  await addPublisher(context, about, { provider: 'gitlab', project: 'acme/tools/cli', right: 'stage' })
  const id = await addPublisher(context, about, {
    provider: 'github',
    project: 'acme/billing',
    workflow: 'release.yml',
    environment: 'production',
    claims: [{ name: 'ref', value: 'refs/tags/*' }],
    packages,
    right: 'publish',
  })
  const run = {
    provider: 'github',
    project: 'acme/billing',
    workflow: 'release.yml',
    ref: 'refs/heads/main',
    commit: '9fceb02d0ae598e95dc970b74767f19372d61af8',
    url: 'https://github.com/acme/billing/actions/runs/1',
  }
  const differs = [
    { claim: 'ref', expected: 'refs/tags/*', given: 'refs/heads/main' },
    { claim: 'environment', expected: 'production', given: null },
  ]
  await noteRefusal(db, operator, repository.id, [{ id, exchange: { differs, run } }])
}

/** Adds Git sources that no job reads during a tour. Nobody can open their secrets. */
async function addSources(
  db: pg.Pool,
  repositoryId: string,
  { stage, madeBy }: { stage: string; madeBy: string },
): Promise<TourData['sources']> {
  const add = async (url: string, more: Record<string, unknown> = {}) => {
    const { rows } = await db.query<{ id: string }>(
      `insert into source (repository_id, url, path, tags, branches, every_minutes, hides_source, reaches_private_hosts, key_id,
                           sealed_secrets, host_keys, is_confirmed, made_by, next_look_at, looked_at, failure, failing_since)
       values ($1, $2, $3, '*', 'main', 15, false, false, '\\x0000000000000000', '', $4, $5, $6, now() + interval '14 minutes',
               $7, $8, case when $8::text is not null then now() - interval '2 hours' end)
       returning id`,
      [
        repositoryId,
        url,
        more['path'] ?? '',
        more['hostKeys'] ?? '',
        more['isConfirmed'] ?? true,
        madeBy,
        'lookedAt' in more ? more['lookedAt'] : new Date(Date.now() - 240_000),
        more['failure'] ?? null,
      ],
    )
    return rows[0]?.id ?? ''
  }
  const healthy = await add('https://git.example.com/acme/billing.git')
  const failure = 'the server does not accept the credentials, or needs some'
  const failing = await add('https://gitlab.example.com/acme/tools/cli.git', {
    path: 'packages/cli',
    failure,
  })
  const key = 'AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl'
  const unconfirmed = await add('ssh://git@git.example.com/acme/private.git', {
    hostKeys: `git.example.com ssh-ed25519 ${key}\n`,
    isConfirmed: false,
    lookedAt: null,
  })
  await db.query(
    `insert into source_ref (source_id, kind, name, state, reason, warnings, commit_id, seen_commit, package_name, version, stage_id)
     select $1, 'tag', 'v0.' || i || '.0', 'published', null, '{}', repeat('a', 40), repeat('a', 40), 'acme/billing',
            '0.' || i || '.0', null::bigint
       from generate_series(1, 200) i
      union all
     values ($1::bigint, 'branch', 'main', 'published', null, array['the submodule lib/other is not in the archive'],
             repeat('b', 40), repeat('b', 40), 'acme/billing', 'dev-main', null),
            ($1, 'tag', 'v2.2.0', 'staged', null, '{}', repeat('c', 40), repeat('c', 40), 'acme/billing', '2.2.0', $2::bigint),
            ($1, 'tag', 'v2.0.0', 'moved', 'it was moved from commit aaaaaaaaaa to bbbbbbbbbb: a published version never changes, so make a new tag',
             '{}', repeat('a', 40), repeat('b', 40), 'acme/billing', '2.0.0', null),
            ($1, 'tag', 'v1.3.0', 'refused', 'composer.json: name must be the name of a package, such as acme/lib', '{}', null,
             repeat('d', 40), null, null, null),
            ($1, 'tag', 'nightly', 'skipped', 'its name is no version such as 1.0.0', '{}', null, repeat('e', 40), null, null, null)`,
    [healthy, stage],
  )
  return { healthy, failing, unconfirmed }
}

/** Adds attestations to a version and a stage. */
async function addAttestations(
  db: pg.Pool,
  { id: repositoryId }: { id: string },
  stageId: string,
): Promise<void> {
  const run = {
    provider: 'github',
    project: 'acme/billing',
    workflow: 'release.yml',
    ref: 'refs/tags/v2.0.0',
    commit: '9fceb02d0ae598e95dc970b74767f19372d61af8',
    url: 'https://github.com/acme/billing/actions/runs/1',
  }
  const logUrl = 'https://search.sigstore.dev/?logIndex=123456789'
  const attested = [
    { predicateType: 'https://slsa.dev/provenance/v1', run, logUrl },
    { predicateType: 'https://cyclonedx.org/bom', run, logUrl: null },
  ]
  await db.query(
    `with provenance (document, attested) as (values ('{"version":1,"attestation_bundles":[]}'::json, $3::jsonb)),
          staged as (
            update staged_version s set provenance = o.document, attested = o.attested from provenance o where s.id = $2
          )
     update package_version v set provenance = o.document, attested = o.attested
       from provenance o, package p
      where p.id = v.package_id and p.repository_id = $1 and p.name = 'acme/billing' and v.version = '2.0.0'`,
    [repositoryId, stageId, JSON.stringify(attested)],
  )
}

async function addUpstream(db: pg.Pool, repositoryId: string, requesterId: string): Promise<void> {
  await db.query(
    `with added as (
       insert into upstream (repository_id, name, url, mode, position, failure)
       values ($1, 'packagist', 'https://repo.packagist.example.com', 'approved', 1, 'the server did not respond')
       returning id
     )
     insert into mirrored_package (repository_id, name, upstream_id, first_seen_at, approved_at, requested_at,
                                   requester_id, description)
     select $1, name, added.id, now() - interval '3 days', approved_at, requested_at, requester_id, description
       from added, (values
         ('psr/log', now(), null, null::bigint, 'Common interface for logging libraries'),
         ('monolog/monolog', null, now(), $2::bigint, 'Sends your logs to files, sockets and inboxes'))
         wanted (name, approved_at, requested_at, requester_id, description)`,
    [repositoryId, requesterId],
  )
  await addMirrorContent(db, repositoryId)
}

/** Lets the upstream have served psr/log: one version is stored with a changed archive, one is held back. */
async function addMirrorContent(db: pg.Pool, repositoryId: string): Promise<void> {
  const entry = {
    name: 'psr/log',
    description: 'Common interface for logging libraries',
    license: ['MIT'],
    authors: [{ name: 'PHP-FIG' }],
    keywords: ['log', 'psr', 'psr-3'],
    homepage: 'https://github.com/php-fig/log',
    support: { source: 'https://github.com/php-fig/log' },
    require: { php: '>=8.0.0' },
  }
  const versions = ['3.1.0', '3.0.0', '2.0.0'].map((version, i) => ({
    ...entry,
    version,
    'published-time': i === 0 ? new Date().toISOString() : `202${5 - i}-09-11T13:17:53+00:00`,
    dist: { type: 'zip', url: `https://repo.packagist.example.com/log-${version}.zip`, reference: 'a1b2c3d' },
  }))
  const advisory = {
    advisoryId: 'PKSA-2026-0001',
    affectedVersions: '<3.0.0',
    title: 'Messages with control characters are logged as they are',
    cve: 'CVE-2026-23456',
    severity: 'medium',
    reportedAt: '2026-10-01 00:00:00',
    sources: [],
  }
  const document = { packages: { 'psr/log': versions }, 'security-advisories': [advisory] }
  const content = readDocument(document as JsonObject, 'psr/log')
  const packed = packDocument(content as UpstreamDocument)
  await db.query(
    `with log as (
       select id, upstream_id from mirrored_package where repository_id = $1 and name = 'psr/log'
     ), documents as (
       insert into upstream_document (upstream_id, name, is_dev, is_found, checked_at, content, dropped)
       select upstream_id, 'psr/log', false, true, now() - interval '1 hour', $2,
              '{"1.0.0: the upstream offers it only as source, without an archive"}' from log
     ), served as (
       insert into mirrored_document (package_id, is_dev, last_modified, base_url, due_at, plain, gzip, brotli, format, held_back)
       select id, false, now(), '', 'infinity', '', '', '', 1000,
              jsonb_build_array(jsonb_build_object('version', '3.1.0', 'key', '3.1.0/a1b2c3d', 'until', now() + interval '3 days'))
         from log
     ), advised as (
       update upstream set root = '{"hasAdvisoriesInDocuments": true}' where id = (select upstream_id from log)
     )
     insert into mirrored_archive (package_id, version_path, reference, version, normalized, type, url, sha256, is_stored,
                                   alarm, alarmed_at)
     select log.id, v, 'a1b2c3d', v, v || '.0', 'zip', 'https://repo.packagist.example.com/log.zip',
            case when v = '3.0.0' then own.sha256 end, v = '3.0.0',
            case when v = '3.0.0' then 'its bytes differ from those of the first fetch (SHA-256 ' || repeat('0123456789abcdef', 4) || ')' end,
            case when v = '3.0.0' then now() end
       from log, unnest('{3.1.0,3.0.0,2.0.0}'::text[]) v,
            (select v.sha256 from package_version v join package p on p.id = v.package_id
              where p.name = 'acme/billing' order by v.id desc limit 1) own`,
    [repositoryId, packed.packed],
  )
}
