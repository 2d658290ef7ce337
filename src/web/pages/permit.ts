import type pg from 'pg'
import type { Session } from '../../accounts/sessions.ts'
import type { AppContext } from '../../context.ts'
import type { Queryable } from '../../database/database.ts'
import {
  decideAccess,
  decideOnGroup,
  decideOnSite,
  fullCredential,
  type GroupAct,
  type RepositoryAct,
  type SiteAct,
} from '../../domain/permissions.ts'
import { findVisibleGroup, type VisibleGroup } from '../../groups/groups.ts'
import { findVisibleRepository, type VisibleRepository } from '../../groups/repositories.ts'
import type { StorageRoom } from '../../groups/storage-room.ts'
import type { Outbound } from '../../outbound/outbound.ts'
import type { DownloadCounter } from '../../packages/download-counter.ts'
import type { ReadmeRenderer } from '../../packages/readmes/render-readme.ts'
import type { ArchiveMirror } from '../../upstreams/archive-mirror.ts'
import type { UpstreamClient } from '../../upstreams/client/fetch.ts'
import type { UpstreamQueries } from '../../upstreams/queries.ts'
import { PageError, pageNotFound } from '../page-error.ts'

/** The context of the pages. */
export interface PagesContext extends AppContext {
  readmes: ReadmeRenderer
  /** A small separate pool for changes of packages, because they wait for locks. */
  changes: pg.Pool
  /** The OpenAPI document of the API. */
  describeApi: () => Promise<Record<string, unknown>>
  outbound: Outbound
  upstreamClient: UpstreamClient
  archiveMirror: ArchiveMirror
  upstreamQueries: UpstreamQueries
  room: StorageRoom
  downloads: DownloadCounter
}

/** Returns whether the account of a session may do something. The same rule applies to tokens (CONTRACT 1.10). */
export function may(repository: VisibleRepository, session: Session | null, act: RepositoryAct): boolean {
  return decideAccess(session && credentialOf(session), repository, act) === 'allowed'
}

/** Returns whether the account of a session may do something on the site. */
export function mayOnSite(session: Session, act: SiteAct): boolean {
  return decideOnSite(credentialOf(session), act) === 'allowed'
}

/** Returns the repository of a URL. Throws 404 when the account may not see it, and 403 when its role is too weak. */
export async function permittedRepository(
  db: Queryable,
  path: { group: string; name: string },
  session: Session,
  act: RepositoryAct,
): Promise<VisibleRepository> {
  const repository = await findVisibleRepository(db, path, session.account.id)
  if (!repository) throw pageNotFound()
  if (!may(repository, session, act)) throw forbidden()
  return repository
}

/** Returns whether the account of a session may do something in a group. */
export function mayInGroup({ role }: VisibleGroup, session: Session, act: GroupAct): boolean {
  return decideOnGroup(credentialOf(session), role, act) === 'allowed'
}

/** Returns the group of a URL. Throws 404 when the account may not see it, and 403 when its role is too weak. */
export async function managedGroup(
  db: Queryable,
  name: string,
  session: Session,
  act: GroupAct,
): Promise<VisibleGroup> {
  const group = await findVisibleGroup(db, name, session.account.id)
  if (!group) throw pageNotFound()
  if (!mayInGroup(group, session, act)) throw forbidden()
  return group
}

/** A browser has all the access of its account. */
function credentialOf({ account }: Session) {
  return fullCredential('session', account.isAdmin)
}

function forbidden(): PageError {
  return new PageError(403, 'Your role does not allow this. Ask an admin of the group or the repository.')
}
