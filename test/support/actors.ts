import { randomBytes } from 'node:crypto'
import argon2 from 'argon2'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import type pg from 'pg'
import { findCredentials, insertAccount } from '../../src/accounts/accounts.ts'
import { hashPassword } from '../../src/accounts/passwords.ts'
import { insertPersonalToken, type NewPersonalToken } from '../../src/accounts/personal-tokens.ts'
import { findFactors, hasFactor } from '../../src/accounts/second-factor/factors.ts'
import { insertSession } from '../../src/accounts/sessions.ts'
import { rememberOrigin } from '../../src/accounts/sign-in-origins.ts'
import { readConfig } from '../../src/config.ts'
import type { AppContext } from '../../src/context.ts'
import type { Queryable } from '../../src/database/database.ts'
import { networkOf } from '../../src/domain/client-ip.ts'
import type { Role } from '../../src/domain/permissions.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret, makeOpaqueId, makeSecret } from '../../src/domain/secrets.ts'
import { createDeployToken, type NewDeployToken } from '../../src/groups/deploy-tokens.ts'
import type { Group } from '../../src/groups/groups.ts'
import { setGroupMember, setRepositoryMember } from '../../src/groups/members.ts'
import { insertRepository, type NewRepository, type Repository } from '../../src/groups/repositories.ts'

/** The password of every account in the tests. It is hashed once, because hashing is slow on purpose. */
export const password = 'correct horse battery staple'
const passwordHash = hashPassword(password)

/**
 * Returns a hash at a twentieth of the usual cost, as an old account may have it, for tests that check many wrong passwords.
 * A sign-in with the right password replaces it.
 */
export function hashCheaply(secret: string): Promise<string> {
  return argon2.hash(secret, { memoryCost: 1024, timeCost: 2, parallelism: 1 })
}

/** Returns a name that is unique in this test run. */
export function aName(kind: string): string {
  return `${kind}-${randomBytes(4).toString('hex')}`
}

export interface AccountActor {
  id: string
  username: string
}

/** An account whose password is `password`. `hash` is another hash of it than the usual one. */
export async function anAccount(
  db: Queryable,
  {
    username = aName('ann'),
    displayName = '',
    email = null as string | null,
    isAdmin = false,
    hash = passwordHash,
  } = {},
): Promise<AccountActor> {
  const id = await insertAccount(db, operator, {
    username,
    displayName,
    email,
    isAdmin,
    passwordHash: await hash,
  })
  return { id, username }
}

/** A group without members. */
export async function aGroup(db: Queryable, name = aName('group')): Promise<Group> {
  const { rows } = await db.query<Group>(
    'insert into repository_group (name) values ($1) returning id, name',
    [name],
  )
  return rows[0] as Group
}

/** The group of a repository. */
export async function groupOf(db: Queryable, repository: { id: string }): Promise<Group> {
  const { rows } = await db.query<Group>(
    'select g.id, g.name from repository_group g join repository r on r.group_id = g.id where r.id = $1',
    [repository.id],
  )
  return rows[0] as Group
}

/** The role of an account in a repository, also by its group. Null when it has none. */
export async function roleIn(
  db: Queryable,
  account: { id: string },
  repository: { id: string },
): Promise<Role | null> {
  const { rows } = await db.query<{ role: Role | null }>('select role_of($1, $2) as role', [
    account.id,
    repository.id,
  ])
  return rows[0]?.role ?? null
}

/** A repository. Without a group, it gets a new one. */
export async function aRepository(
  db: Queryable,
  { group, ...about }: Partial<Omit<NewRepository, 'groupId'>> & { group?: Group } = {},
): Promise<Repository & { group: Group }> {
  const owner = group ?? (await aGroup(db))
  const repository = { groupId: owner.id, name: aName('repo'), visibility: 'private', ...about } as const
  return { ...(await insertRepository(db, repository)), group: owner }
}

/** Makes the account a member of the repository. */
export async function aMember(
  db: Queryable,
  account: { id: string },
  repository: { id: string },
  role: Role,
): Promise<void> {
  await setRepositoryMember(db, repository.id, account.id, role)
}

/** Makes the account a member of the whole group. */
export async function aGroupMember(
  db: Queryable,
  account: { id: string },
  group: { id: string },
  role: Role,
): Promise<void> {
  await setGroupMember(db, group.id, account.id, role)
}

/** Creates a personal access token of the account. Returns the plain token. */
export async function aPersonalToken(
  db: Queryable,
  account: { id: string },
  about: Partial<Omit<NewPersonalToken, 'accountId' | 'tokenHash'>> = {},
): Promise<string> {
  const token = makeSecret('personal')
  await insertPersonalToken(db, operator, {
    accountId: account.id,
    name: aName('token'),
    tokenHash: hashSecret(token),
    scopes: ['registry-package:rw'],
    resourceScope: 'all',
    repositoryIds: [],
    expiry: { inDays: 1 },
    isAdmin: false,
    ...about,
  })
  return token
}

/** Creates an admin token of a site administrator. Returns the plain token. */
export async function anAdminToken(
  db: Queryable,
  account: { id: string },
  about: Parameters<typeof aPersonalToken>[2] = {},
): Promise<string> {
  return aPersonalToken(db, account, { isAdmin: true, ...about })
}

/** Creates a deploy token of the group. Returns the plain token. */
export async function aDeployToken(
  db: pg.Pool,
  group: { id: string },
  about: Partial<Omit<NewDeployToken, 'groupId'>> & { madeBy?: { id: string } } = {},
): Promise<string> {
  const { madeBy, ...wanted } = about
  const by = madeBy ? ({ ...operator, via: 'browser', accountId: madeBy.id } as const) : operator
  const { token } = await createDeployToken({ config: readConfig({}), db }, by, {
    groupId: group.id,
    name: aName('deploy'),
    right: 'publish',
    repositories: 'all',
    expiry: { inDays: 1 },
    ...wanted,
  })
  return token
}

/** The context of each app that `useApp` has built. */
export const contexts = new WeakMap<FastifyInstance, AppContext>()

/**
 * Signs the account in. Returns the Cookie header of that browser. The form of the sign-in is sent only if its answer may
 * be another one than a session, because its hash took a third of the time of many tests.
 */
export async function signIn(app: FastifyInstance, { username }: { username: string }): Promise<string> {
  const context = contexts.get(app)
  const session = context && (await startKnownSession(context, username))
  return session || signInByForm(app, { username })
}

/** Signs the account in over HTTP. Returns the Cookie header of that browser. */
export async function signInByForm(
  app: FastifyInstance,
  { username }: { username: string },
): Promise<string> {
  const form = await app.inject('/login')
  const response = await post(app, '/login', cookiesOf(form), {
    csrf_token: csrfTokenIn(form),
    username,
    password,
  })
  if (response.statusCode !== 303) throw new Error(`${username} could not sign in: ${response.statusCode}`)
  return cookiesOf(response)
}

/** Starts the session that the form of the sign-in would start. Null if it could do something else. */
async function startKnownSession({ config, db }: AppContext, username: string): Promise<string | null> {
  const credentials = await findCredentials(db, username)
  if (credentials?.passwordHash !== (await passwordHash) || config.passwordSignIn !== 'on') return null
  const { accountId } = credentials
  if (hasFactor(await findFactors(db, accountId))) return null
  const ip = '127.0.0.1'
  const by = { ...operator, via: 'browser', accountId, ip, userAgent: 'lightMyRequest' } as const
  const session = await insertSession(db, by, credentials, {
    network: networkOf(ip),
    userAgent: by.userAgent,
    signIn: { proof: { method: 'password' }, isNewBrowser: true },
  })
  const device = makeOpaqueId()
  await rememberOrigin(db, accountId, [hashSecret(`network ${networkOf(ip)}`), hashSecret(device)])
  const prefix = config.baseUrl.startsWith('https:') ? '__Host-svc' : 'svc'
  return session && `${prefix}_session=${session}; ${prefix}_device=${device}`
}

/** Sends a form as a browser does. A field may have many values. */
export function post(
  app: FastifyInstance,
  url: string,
  cookie: string,
  form: Record<string, string | string[]>,
  headers: Record<string, string> = {},
): Promise<LightMyRequestResponse> {
  const pairs = Object.entries(form).flatMap(([name, value]) => [value].flat().map((one) => [name, one]))
  return app.inject({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/x-www-form-urlencoded', cookie, ...headers },
    payload: new URLSearchParams(pairs).toString(),
  })
}

/** The Cookie header that a browser would send after this response. */
export function cookiesOf(response: LightMyRequestResponse): string {
  return response.cookies
    .filter(({ value }) => value !== '')
    .map(({ name, value }) => `${name}=${value}`)
    .join('; ')
}

/** Returns the CSRF token in the forms of a page. */
export function csrfTokenIn(page: LightMyRequestResponse): string {
  const [, token] = /name="csrf_token" value="([^"]+)"/.exec(page.body) ?? []
  if (token === undefined) throw new Error(`no form on the page: ${page.statusCode}`)
  return token
}
