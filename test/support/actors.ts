import { randomBytes } from 'node:crypto'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { insertAccount } from '../../src/accounts/accounts.ts'
import { hashPassword } from '../../src/accounts/passwords.ts'
import type { Queryable } from '../../src/database.ts'
import type { ResourceScope, Role, Visibility } from '../../src/permissions.ts'
import { hashSecret, makeSecret } from '../../src/secrets.ts'

/** The password of every account that a test makes; hashed once, for hashing is slow on purpose. */
export const password = 'correct horse battery staple'
const passwordHash = hashPassword(password)

/** A name that no other actor of this run has. */
export function aName(kind: string): string {
  return `${kind}-${randomBytes(4).toString('hex')}`
}

export interface AccountActor {
  id: string
  username: string
}

/** Someone with an account, who signs in with `password`. */
export async function anAccount(
  db: Queryable,
  { username = aName('ann'), displayName = '', email = null as string | null, isAdmin = false } = {},
): Promise<AccountActor> {
  const id = await insertAccount(db, {
    username,
    displayName,
    email,
    isAdmin,
    passwordHash: await passwordHash,
  })
  return { id, username }
}

/** A group without members. */
export async function aGroup(db: Queryable, name = aName('group')): Promise<{ id: string; name: string }> {
  const { rows } = await db.query<{ id: string }>(
    'insert into repository_group (name) values ($1) returning id',
    [name],
  )
  return { id: (rows[0] as { id: string }).id, name }
}

export interface RepositoryActor {
  id: string
  groupId: string
  group: string
  name: string
  /** `<group>/<name>` */
  path: string
}

/** A repository, in a group of its own unless one is given. */
export async function aRepository(
  db: Queryable,
  {
    group,
    name = aName('repo'),
    visibility = 'private',
    description = '',
  }: {
    group?: { id: string; name: string }
    name?: string
    visibility?: Visibility
    description?: string
  } = {},
): Promise<RepositoryActor> {
  const owner = group ?? (await aGroup(db))
  const { rows } = await db.query<{ id: string }>(
    'insert into repository (group_id, name, visibility, description) values ($1, $2, $3, $4) returning id',
    [owner.id, name, visibility, description],
  )
  const { id } = rows[0] as { id: string }
  return { id, groupId: owner.id, group: owner.name, name, path: `${owner.name}/${name}` }
}

/** Makes the account a member of the repository. */
export async function aMember(
  db: Queryable,
  account: { id: string },
  repository: { id: string },
  role: Role,
): Promise<void> {
  await db.query('insert into repository_member (repository_id, account_id, role) values ($1, $2, $3)', [
    repository.id,
    account.id,
    role,
  ])
}

/** Makes the account a member of the whole group. */
export async function aGroupMember(
  db: Queryable,
  account: { id: string },
  group: { id: string },
  role: Role,
): Promise<void> {
  await db.query('insert into group_member (group_id, account_id, role) values ($1, $2, $3)', [
    group.id,
    account.id,
    role,
  ])
}

/** A personal access token of the account; it answers the plain token. */
export async function aPersonalToken(
  db: Queryable,
  account: { id: string },
  {
    scopes = ['registry-package:rw'],
    resourceScope = 'all',
    repositories = [],
    name = aName('token'),
  }: {
    scopes?: string[]
    resourceScope?: ResourceScope
    repositories?: { id: string }[]
    name?: string
  } = {},
): Promise<string> {
  const token = makeSecret('personal')
  await db.query(
    `with token as (
       insert into personal_token (account_id, name, token_hash, scopes, resource_scope, expires_at)
       values ($1, $2, $3, $4, $5, now() + interval '1 day')
       returning id
     )
     insert into personal_token_repository (personal_token_id, repository_id)
     select token.id, repository_id from token, unnest($6::bigint[]) as repository_id`,
    [account.id, name, hashSecret(token), scopes, resourceScope, repositories.map(({ id }) => id)],
  )
  return token
}

/** Signs the account in over HTTP, and answers the Cookie header of the browser that did. */
export async function signIn(app: FastifyInstance, { username }: { username: string }): Promise<string> {
  const form = await app.inject('/login')
  const answer = await post(app, '/login', cookiesOf(form), {
    csrf_token: csrfTokenIn(form),
    username,
    password,
  })
  if (answer.statusCode !== 303) throw new Error(`${username} could not sign in: ${answer.statusCode}`)
  return cookiesOf(answer)
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

/** The Cookie header that a browser would send after this answer. */
export function cookiesOf(answer: LightMyRequestResponse): string {
  return answer.cookies
    .filter(({ value }) => value !== '')
    .map(({ name, value }) => `${name}=${value}`)
    .join('; ')
}

/** The token that a page's forms carry. */
export function csrfTokenIn(page: LightMyRequestResponse): string {
  const [, token] = /name="csrf_token" value="([^"]+)"/.exec(page.body) ?? []
  if (token === undefined) throw new Error(`no form on the page: ${page.statusCode}`)
  return token
}
