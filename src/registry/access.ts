import type { Queryable } from '../database/database.ts'
import {
  type Act,
  judge,
  type Role,
  scopeOf,
  type TokenGrant,
  type Visibility,
} from '../domain/permissions.ts'
import type { SecretHash } from '../domain/secrets.ts'
import type { UsedToken } from '../jobs/last-use.ts'
import { errcode, notAuthorized, RegistryError } from './errors.ts'
import { badCredentials } from './protocol/credentials.ts'

/** Where a request goes, and the token it presents. */
export interface Door {
  group: string
  name: string
  /** Null when it presents none. */
  tokenHash: SecretHash | null
}

/** Whose token a request came with. */
export interface Actor extends UsedToken {
  accountId: string
}

/** What the database says about a door: the repository and the token there, each null when there is none. */
export interface Access {
  repositoryId: string | null
  visibility: Visibility
  role: Role | null
  tokenKind: Actor['kind'] | null
  tokenId: string
  accountId: string
  authorizationId: string | null
  scopes: string[]
  resourceScope: TokenGrant['resourceScope']
  repositoryIds: string[]
}

/** Whom the door lets in. */
export interface Admission {
  repositoryId: string
  /** Null for a request without credentials to a public repository. */
  actor: Actor | null
}

/** Reads an `Access`; the door's three values come first: `from ${accessTable} …`, `values: [...doorValues(door)]`. */
export const accessTable = 'registry_access($1, $2, $3) a'
export const accessColumns = `a.repository_id as "repositoryId", a.visibility, a.role, a.token_kind as "tokenKind",
  a.token_id as "tokenId", a.account_id as "accountId", a.authorization_id as "authorizationId", a.scopes,
  a.resource_scope as "resourceScope", a.repository_ids as "repositoryIds"`

export function doorValues({ group, name, tokenHash }: Door): [string, string, SecretHash | null] {
  return [group, name, tokenHash]
}

/** The same in a statement for many calls: `forEachCall({ ...doorColumns, … }, …)`, `values: [...doorArrays(doors), …]`. */
export const accessOfCall = 'registry_access(call.group_name, call.repository_name, call.token_hash) a'
export const doorColumns = { group_name: 'text', repository_name: 'text', token_hash: 'bytea' }

export function doorArrays(doors: readonly Door[]): [string[], string[], (SecretHash | null)[]] {
  return [
    doors.map(({ group }) => group),
    doors.map(({ name }) => name),
    doors.map(({ tokenHash }) => tokenHash),
  ]
}

/** The access alone, for endpoints that read nothing else in the same statement. */
export async function findAccess(db: Queryable, door: Door): Promise<Access> {
  const { rows } = await db.query<Access>({
    name: 'find-access',
    text: `select ${accessColumns} from ${accessTable}`,
    values: doorValues(door),
  })
  return rows[0] as Access
}

/**
 * The registry's dialect of the permission rule (DESIGN §1, §7). Throws errcode 16 with 401 when credentials are
 * missing or bad, errcode 5 for a repository that the token may not see, and errcode 16 with 403 when it may see the
 * repository but not do this. Without credentials a private repository looks like an unknown one, so that Composer
 * asks for them and nobody learns what exists. An upload to a hidden repository keeps the body that SPEC 7 gives to a
 * missing permission, and of "not there" only the status.
 */
export function admit(door: Door, access: Access, act: Act): Admission {
  const actor = actorOf(access)
  if (door.tokenHash && !actor) throw badCredentials('The token is unknown, expired or revoked.')
  const { repositoryId } = access
  const standing = repositoryId === null ? null : { ...access, id: repositoryId }
  const verdict = standing === null ? 'hidden' : judge(actor && access, standing, act)
  if (standing !== null && verdict === 'allowed') return { repositoryId: standing.id, actor }
  if (!actor) throw badCredentials('Credentials are missing: the username svc and a token as the password.')
  if (verdict === 'hidden') throw act === 'push' ? nowhereToPush() : noRepository()
  throw notAuthorized({ status: 403, warning: reasonOf(verdict, act) })
}

function actorOf({ tokenKind, tokenId, accountId, authorizationId }: Access): Actor | null {
  return tokenKind && { kind: tokenKind, tokenId, accountId, authorizationId }
}

function reasonOf(verdict: string, act: Act): string {
  return verdict === 'unscoped'
    ? `The token lacks the scope ${scopeOf(act)}.`
    : 'The role of the account, or the repositories its token was made for, do not allow this.'
}

const hiddenOrMissing = 'There is no repository at this address, or the token may not see it.'

/** One answer for what does not exist and for what this token may not see. */
export function noRepository(): RegistryError {
  return new RegistryError(errcode.notFound, 'repository not found', { warning: hiddenOrMissing })
}

function nowhereToPush(): RegistryError {
  return notAuthorized({ status: 404, warning: hiddenOrMissing })
}
