import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import { type Config, projectRoot } from '../config.ts'
import { advisoryLocks, type Queryable, sweepOf, transaction } from '../database/database.ts'
import { countAttempt } from '../database/failure-limit.ts'
import type { ListPart } from '../domain/paging.ts'
import type { Principal } from '../domain/principal.ts'
import { readRowId } from '../domain/row-id.ts'
import {
  type ChangedApplication,
  changeApplication,
  registerApplication,
  requireReason,
  type Settle,
  UnacceptableChange,
} from './application-changes.ts'
import { findLookalike } from './application-rules.ts'
import {
  type Application,
  addApplication,
  findApplicationByClientId,
  listApplicationNames,
  setApplicationStatus,
  updateUnreviewedApplication,
} from './applications.ts'
import { type ClientDocument, DocumentRefusal, registrationOf } from './read-document.ts'

/** How many documents wait at most: of those that one account has asked for, and of all. */
const maxWaitingOfAccount = 5
const maxWaiting = 500
/** How many applications one account can cause in a day with `CLIENT_METADATA_DOCUMENTS=open`. */
const maxNewApplications = 20
/** How often an unreviewed application can change in a day. */
const maxChanges = 50
const daySeconds = 86_400

/** A document that waits for a review, or that was rejected (OPENID 276, 280). */
export interface ListedDocument extends ClientDocument {
  /** The id of this text of the document. A changed document has another one. */
  id: string
  isRejected: boolean
  /** Why it was rejected. Null when no reason was given. */
  reason: string | null
  /** The redirect URIs that are accepted now, if it is the document of an application. Null if it is not. */
  acceptedUris: string[] | null
  /** The username of who has opened the application's link first. Null when the account was deleted. */
  askedBy: string | null
  askedAt: Date
}

export const documentStates = ['waiting', 'rejected'] as const
export type DocumentState = (typeof documentStates)[number]

/** Returns a document as the API and the commands show it. */
export function describeClientDocument(document: ListedDocument) {
  return {
    id: Number(document.id),
    client_id: document.clientId,
    name: document.name,
    redirect_uris: document.redirectUris,
    new_redirect_uris: newUrisOf(document),
    scopes: document.scopes,
    state: document.isRejected ? 'rejected' : 'waiting',
    reason: document.reason,
    registered: document.acceptedUris !== null,
    asked_by: document.askedBy,
    asked_at: document.askedAt.toISOString(),
  } as const
}

/** Returns the redirect URIs of a document that an approval would add. */
export function newUrisOf({
  redirectUris,
  acceptedUris,
}: Pick<ListedDocument, 'redirectUris' | 'acceptedUris'>): string[] {
  return redirectUris.filter((uri) => acceptedUris?.includes(uri) !== true)
}

const columns = `d.id, d.client_id as "clientId", d.name, d.redirect_uris as "redirectUris", d.scopes,
  d.is_rejected as "isRejected", d.reason, d.asked_at as "askedAt",
  (select redirect_uris from application a where a.client_id = d.client_id and not a.is_unreviewed) as "acceptedUris",
  (select username from account where account.id = d.account_id) as "askedBy"`

/** Lists the documents in a state, oldest first. `after` is the id of one of them. */
export async function listClientDocuments(
  db: Queryable,
  { after, limit }: ListPart,
  state: DocumentState = 'waiting',
): Promise<ListedDocument[]> {
  const { rows } = await db.query<ListedDocument>(
    `select ${columns} from client_document d
      where d.is_rejected = $3 and ($1::bigint is null or d.id > $1) order by d.id limit $2`,
    [readRowId(after), limit, state === 'rejected'],
  )
  return rows
}

/** Counts the documents that wait. */
export async function countWaitingDocuments(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from client_document where not is_rejected',
  )
  return rows[0]?.count ?? 0
}

/** Finds a document, waiting or rejected. Null when there is none with this id. */
export async function findClientDocument(db: Queryable, id: string): Promise<ListedDocument | null> {
  if (readRowId(id) === null) return null
  const { rows } = await db.query<ListedDocument>(
    `select ${columns} from client_document d where d.id = $1`,
    [id],
  )
  return rows[0] ?? null
}

/** Returns whether an administrator has rejected the document with a URL. That stays, also when the document changes. */
export async function isRejectedDocument(db: Queryable, clientId: string): Promise<boolean> {
  const { rowCount } = await db.query('select from client_document where client_id = $1 and is_rejected', [
    clientId,
  ])
  return rowCount === 1
}

/**
 * Lets a document wait for a review, on behalf of an account. Returns false when there is no room for it: one account cannot
 * fill the list.
 */
export async function askForReview(
  db: pg.Pool,
  document: ClientDocument,
  accountId: string,
): Promise<boolean> {
  const { clientId, name, redirectUris, scopes } = document
  const text = [clientId, name, redirectUris, scopes]
  const asked = await db.query(
    `select from client_document
      where client_id = $1 and (is_rejected or (name, redirect_uris, scopes) = ($2, $3::text[], $4::text[]))`,
    text,
  )
  if (asked.rowCount === 1) return true
  return transaction(db, async (tx) => {
    // In turn, so that the count holds.
    await tx.query('select pg_advisory_xact_lock($1)', [advisoryLocks.clientDocuments])
    const { rowCount } = await tx.query(
      `insert into client_document as d (client_id, name, redirect_uris, scopes, account_id)
       select $1, $2, $3, $4, $5
        where exists (select from client_document where client_id = $1)
           or ((select count(*) from client_document where account_id = $5 and not is_rejected) < $6
               and (select count(*) from client_document where not is_rejected) < $7)
       on conflict (client_id) do update
          set id = default, name = excluded.name, redirect_uris = excluded.redirect_uris, scopes = excluded.scopes
        where not d.is_rejected`,
      [...text, accountId, maxWaitingOfAccount, maxWaiting],
    )
    return rowCount === 1
  })
}

/** Deletes documents that have waited for three months, at most `limit`. Returns how many. */
export const deleteForgottenDocuments = sweepOf(
  'client_document',
  'id',
  `not is_rejected and asked_at < now() - interval '90 days'`,
)

/**
 * Makes the application that a document describes, without a review (OPENID 277). If somebody else has just done so, returns
 * that one. Throws `DocumentRefusal` for a name that looks like that of a reviewed application, and for one account that causes
 * too many.
 */
export async function registerUnreviewed(
  db: pg.Pool,
  by: Principal,
  document: ClientDocument,
  accountId: string,
): Promise<Application> {
  const limit = { subject: `client documents of account ${accountId}`, windowSeconds: daySeconds }
  if ((await countAttempt(db, [{ ...limit, attempts: maxNewApplications }])) > 0) {
    throw new DocumentRefusal(
      'Your account has opened links of many new applications today. Try again tomorrow.',
    )
  }
  const logo = await readLogo()
  const application = await transaction(
    db,
    async (tx) => {
      await tx.query('select pg_advisory_xact_lock($1)', [advisoryLocks.applicationNames])
      if (findLookalike(document, await listApplicationNames(tx)) !== null)
        throw new DocumentRefusal('Its name looks like that of another application here.')
      const registration = { ...registrationOf(document), status: 'approved', isUnreviewed: true } as const
      return addApplication(tx, { ...registration, logo, secretHash: null })
    },
    by,
  )
  return application ?? ((await findApplicationByClientId(db, document.clientId)) as Application)
}

/**
 * Takes over a changed document of an unreviewed application. Null when it was reviewed or deleted in the meantime. Throws
 * `DocumentRefusal` for one that changes again and again: each change is an event.
 */
export async function followDocument(
  db: pg.Pool,
  by: Principal,
  document: ClientDocument,
): Promise<Application | null> {
  const subject = `changes of the client document ${document.clientId}`
  const limit = { subject, attempts: maxChanges, windowSeconds: daySeconds }
  if ((await countAttempt(db, [limit])) > 0)
    throw new DocumentRefusal('The client metadata document changes too often. Try again tomorrow.')
  return transaction(db, (tx) => updateUnreviewedApplication(tx, document.clientId, document), by)
}

/**
 * Approves a document, also one that was rejected before: its application is registered, or gets its new redirect URIs
 * (OPENID 276, 280). Null when there is no such document, or it has changed since. Throws `UnacceptableChange` as
 * `registerApplication` does.
 */
export async function approveDocument(
  db: pg.Pool,
  config: Config,
  by: Principal,
  id: string,
): Promise<ChangedApplication | null> {
  const document = await findClientDocument(db, id)
  if (document === null) return null
  const { clientId, name, redirectUris } = document
  const settle: Settle = async (tx) => {
    const { rowCount } = await tx.query('delete from client_document where id = $1', [id])
    if (rowCount === 0)
      throw new UnacceptableChange('The document has changed, or was decided about, in the meantime.')
    await noteDecision(tx, 'application-document-approved', document)
  }
  const before = await findApplicationByClientId(db, clientId)
  if (before !== null) {
    const changes = {
      name,
      redirectUri: redirectUris[0] ?? before.redirectUri,
      redirectUris,
      isUnreviewed: false,
      scopes: [...new Set([...before.scopes, ...document.scopes])],
    }
    return changeApplication(db, config, by, clientId, changes, settle)
  }
  const registration = { ...registrationOf(document), status: 'approved', logo: await readLogo() } as const
  const { migration } = await registerApplication(db, config, by, registration, settle)
  const application = await findApplicationByClientId(db, clientId)
  return application && { application, migration }
}

/**
 * Rejects a document that waits. What was approved before goes on: the application of the document, with the redirect URIs of
 * its last review. An application without a review is declined. Returns the document; null when there is no such one.
 * Throws `UnacceptableChange` for a reason that is too long.
 */
export async function rejectDocument(
  db: pg.Pool,
  by: Principal,
  id: string,
  reason: string | null,
): Promise<ListedDocument | null> {
  requireReason(reason)
  return transaction(
    db,
    async (tx) => {
      const { rowCount } = await tx.query(
        'update client_document set is_rejected = true, reason = $2 where id = $1 and not is_rejected',
        [id, reason],
      )
      const document = rowCount === 1 ? await findClientDocument(tx, id) : null
      if (document === null) return null
      await noteDecision(tx, 'application-document-rejected', document)
      const application = await findApplicationByClientId(tx, document.clientId)
      if (application?.isUnreviewed) await setApplicationStatus(tx, document.clientId, 'declined', reason)
      return document
    },
    by,
  )
}

/** Writes the event of a decision. Its actor is that of the transaction. */
async function noteDecision(
  tx: Queryable,
  action: 'application-document-approved' | 'application-document-rejected',
  { clientId, name, reason }: ListedDocument,
): Promise<void> {
  await tx.query(
    `select note_identity_event(the_action => $1, the_account_id => null,
                                the_application_id => (select id from application where client_id = $2),
                                the_details => jsonb_strip_nulls(jsonb_build_object('name', $3::text, 'client_id', $2, 'reason', $4::text)))`,
    [action, clientId, name, action === 'application-document-rejected' ? reason : null],
  )
}

/** Documents have no logo that svc shows: an image of somebody else could say what an administrator never saw. */
function readLogo(): Promise<Buffer> {
  return readFile(join(projectRoot, 'views/document-logo.png'))
}
