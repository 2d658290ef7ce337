import type pg from 'pg'
import { findAccountByUsername } from '../accounts/accounts.ts'
import type { Config } from '../config.ts'
import { advisoryLocks, type Queryable, transaction } from '../database/database.ts'
import { keepsMigrations, writeAndApplyMigration } from '../database/operator-migrations.ts'
import { isPlainText } from '../domain/plain-text.ts'
import type { Principal } from '../domain/principal.ts'
import { hashSecret, makeClientId, makeSecret } from '../domain/secrets.ts'
import { findLookalike, listMistakes } from './application-rules.ts'
import {
  type ApplicationChanges,
  renderChangeSeed,
  renderDeletionSeed,
  renderSeed,
  renderStatusSeed,
  slugOf,
} from './application-seed.ts'
import {
  type Application,
  type ApplicationStatus,
  findApplicationByClientId,
  listApplicationNames,
  lockApplication,
  type NewApplication,
  rotateClientSecret,
  setApplicationStatus,
} from './applications.ts'

/** An application after a change. */
export interface ChangedApplication {
  application: Application
  /** The path of the written migration. Null when none was written. */
  migration: string | null
}

/** A new status of an application. The file name of the migration begins with `verb`. */
export interface StatusChange {
  verb: string
  status: ApplicationStatus
  reason?: string | null
  isMigration: boolean
}

export const maxReasonCharacters = 350

/** Throws `UnacceptableChange` for a reason of a decision that is too long, or has control characters. Null is no reason. */
export function requireReason(reason: string | null): void {
  if (reason === null || (Array.from(reason).length <= maxReasonCharacters && isPlainText(reason))) return
  throw new UnacceptableChange(`A reason has at most ${maxReasonCharacters} characters on one line.`)
}

/**
 * Sets an application's status. Token checks read the status, so the tokens of a suspended application stop working in
 * every process at once. Its authorizations end with it, so a later approval revives none. With `isMigration` the change is
 * also written as a migration where the operator keeps migrations. Returns null for an unknown client id.
 * Throws `UnacceptableChange` for a reason that is too long.
 */
export async function changeApplicationStatus(
  db: pg.Pool,
  config: Config,
  by: Principal,
  clientId: string,
  { verb, status, reason = null, isMigration }: StatusChange,
): Promise<ChangedApplication | null> {
  requireReason(reason)
  const before = await findApplicationByClientId(db, clientId)
  if (before === null) return null
  // The review of one that was made without: from now on its name is taken.
  const isFirstReview = before.isUnreviewed && status === 'approved'
  const check = async (tx: Queryable) => (isFirstReview ? requireDistinctName(tx, before) : undefined)
  let migration: string | null = null
  if (isMigration && (await keepsMigrations(config))) {
    const sql = renderStatusSeed(before, status, reason)
    migration = await writeAndApplyMigration(db, config, by, {
      what: `${verb}_${slugOf(before)}`,
      sql,
      check,
    })
  } else {
    await transaction(
      db,
      async (tx) => {
        await check(tx)
        await setApplicationStatus(tx, clientId, status, reason)
      },
      by,
    )
  }
  const application = await findApplicationByClientId(db, clientId)
  return application && { application, migration }
}

/** A change of an application: the end of the migration's file name, and its SQL. */
interface Change {
  what: string
  sql: string
  /** Throws when the change is not acceptable. It runs in the transaction of the change. */
  check?: (tx: Queryable) => Promise<void>
}

/**
 * Applies a change of an application. It also writes the change as a migration where the operator keeps migrations, so that
 * a database rebuilt from them has the same state. Returns the path of the migration; null without one.
 */
async function applyChange(
  db: pg.Pool,
  config: Config,
  by: Principal,
  { what, sql, check = async () => {} }: Change,
): Promise<string | null> {
  if (await keepsMigrations(config)) return writeAndApplyMigration(db, config, by, { what, sql, check })
  await transaction(
    db,
    async (tx) => {
      await check(tx)
      await tx.query(sql)
    },
    by,
  )
  return null
}

/** Thrown when a registration or a change of an application breaks a limit of SPEC 2.1. */
export class UnacceptableChange extends Error {}

/** What happens in the same transaction as the change of an application, before it. */
export type Settle = (tx: Queryable) => Promise<void>

/** What the document of an application decides, and no administrator. */
const ofDocument = ['redirectUri', 'exactRedirect', 'isPublic', 'isResourceServer'] as const

/**
 * Changes an application at once (`applyChange`). Existing grants lose removed scopes. Returns null for an unknown client
 * id. Throws `UnacceptableChange` with a message for each broken limit, for a new name that looks like that of another
 * application, and for what the client metadata document of the application decides (OPENID 279).
 */
export async function changeApplication(
  db: pg.Pool,
  config: Config,
  by: Principal,
  clientId: string,
  changes: ApplicationChanges,
  settle: Settle = async () => {},
): Promise<ChangedApplication | null> {
  const before = await findApplicationByClientId(db, clientId)
  if (before === null) return null
  const isDecided = ofDocument.some((key) => changes[key] !== undefined && changes[key] !== before[key])
  if (before.redirectUris !== null && changes.redirectUris === undefined && isDecided) {
    throw new UnacceptableChange(
      'The application cannot be changed: its client metadata document decides about its redirect URIs, and makes it a public client.',
    )
  }
  const after = { ...before, ...changes }
  const mistakes = listMistakes({ ...after, logo: changes.logo ?? null }, config)
  if (mistakes.length > 0) {
    throw new UnacceptableChange(`The application cannot be changed: ${mistakes.join('; ')}.`)
  }
  await requireDeveloper(db, changes.developer ?? null)
  const migration = await applyChange(db, config, by, {
    what: `set_${slugOf(before)}`,
    sql: renderChangeSeed(before, changes),
    async check(tx) {
      await settle(tx)
      if (after.name !== before.name || after.isUnreviewed !== before.isUnreviewed)
        await requireDistinctName(tx, after)
    },
  })
  const application = await findApplicationByClientId(db, clientId)
  return application && { application, migration }
}

/**
 * Deletes an application with its authorizations and tokens (`applyChange`). Without the migration, a rebuilt database
 * would get the application again from its seed. Returns null for an unknown client id.
 */
export async function deleteApplication(
  db: pg.Pool,
  config: Config,
  by: Principal,
  clientId: string,
): Promise<ChangedApplication | null> {
  const application = await findApplicationByClientId(db, clientId)
  if (application === null) return null
  const migration = await applyChange(db, config, by, {
    what: `delete_${slugOf(application)}`,
    sql: renderDeletionSeed(application),
  })
  return { application, migration }
}

/** The properties of an application before its registration. */
export type RegistrationForm = Omit<NewApplication, 'clientId' | 'secretHash'> & {
  /** The URL of its client metadata document. Without one, it gets a new client id. */
  clientId?: string
}

/** A valid registration that is not stored yet. */
export interface PreparedRegistration {
  clientId: string
  /** Shown once. Null for a public client. */
  clientSecret: string | null
  /** The end of the migration's file name, and its SQL. The migration adds the application. */
  what: string
  sql: string
}

/**
 * Creates a client id, a client secret if it needs one, and the migration that adds a new application. Throws `UnacceptableChange` with
 * a sentence for each broken limit.
 */
export function prepareRegistration(config: Config, form: RegistrationForm): PreparedRegistration {
  const clientSecret = form.isPublic ? null : makeSecret('client')
  const secretHash = clientSecret === null ? null : hashSecret(clientSecret)
  const application = { ...form, clientId: form.clientId ?? makeClientId(), secretHash }
  const mistakes = listMistakes(application, config)
  if (mistakes.length > 0) {
    throw new UnacceptableChange(`The application cannot be registered: ${mistakes.join('; ')}.`)
  }
  return {
    clientId: application.clientId,
    clientSecret,
    what: `application_${slugOf(application)}`,
    sql: renderSeed(application),
  }
}

/**
 * Registers an application at once (`applyChange`). Returns its client id and secret, and the path of the migration; null
 * without one. Throws `UnacceptableChange` with a sentence for each broken limit, for a name that looks like that of another
 * application, and for an unknown developer.
 */
export async function registerApplication(
  db: pg.Pool,
  config: Config,
  by: Principal,
  form: RegistrationForm,
  settle: Settle = async () => {},
): Promise<Pick<PreparedRegistration, 'clientId' | 'clientSecret'> & { migration: string | null }> {
  const { clientId, clientSecret, what, sql } = prepareRegistration(config, form)
  await requireDeveloper(db, form.developer ?? null)
  const check = async (tx: Queryable) => {
    await settle(tx)
    await requireDistinctName(tx, { clientId, name: form.name })
  }
  return { clientId, clientSecret, migration: await applyChange(db, config, by, { what, sql, check }) }
}

/**
 * Makes a new client secret of an application, which is shown only once. Earlier secrets work for at most
 * `overlapSeconds` more. Null when there is no such application. Throws `UnacceptableChange` for a public client.
 */
export async function renewClientSecret(
  db: pg.Pool,
  by: Principal,
  clientId: string,
  overlapSeconds: number,
): Promise<{ application: Application; secret: string } | null> {
  const secret = makeSecret('client')
  const application = await transaction(
    db,
    async (tx) => {
      // Of two at once, the second sees the secret of the first, which is an earlier one then.
      await lockApplication(tx, clientId)
      const rotated = await rotateClientSecret(tx, clientId, hashSecret(secret), overlapSeconds)
      if (rotated?.isPublic)
        throw new UnacceptableChange(`${rotated.name} is a public client, which has no client secret.`)
      return rotated
    },
    by,
  )
  return application && { application, secret }
}

/** Runs in the transaction that gives the name. The lock lets two such transactions compare their names in turn. */
async function requireDistinctName(
  tx: Queryable,
  application: Pick<Application, 'clientId' | 'name'>,
): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1)', [advisoryLocks.applicationNames])
  const lookalike = findLookalike(application, await listApplicationNames(tx))
  if (lookalike === null) return
  throw new UnacceptableChange(
    `People could take this name for that of the application “${lookalike}”. Choose another name.`,
  )
}

async function requireDeveloper(db: pg.Pool, username: string | null): Promise<void> {
  if (username === null) return
  const isKnown = !username.includes('\0') && (await findAccountByUsername(db, username)) !== null
  if (!isKnown) throw new UnacceptableChange(`There is no account ${username} for the developer.`)
}
