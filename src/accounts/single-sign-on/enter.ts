import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import type { Config } from '../../config.ts'
import { transaction } from '../../database/database.ts'
import { brokenConstraint } from '../../database/errors.ts'
import type { ProviderSettings } from '../../domain/identity-provider.ts'
import type { Log } from '../../domain/log.ts'
import type { Principal } from '../../domain/principal.ts'
import { anAdministrator, type Site } from '../../domain/site.ts'
import { lockAccount, removeUnverifiedEmail } from '../accounts.ts'
import { proveEmail } from '../email-verifications.ts'
import { keepsWayIn, type OfferedWays } from '../ways-in.ts'
import {
  deleteIdentity,
  findAccountsOfPerson,
  type IdentityOwner,
  insertAccountOfPerson,
  insertIdentity,
  listIdentities,
  noteIdentityUse,
} from './identities.ts'
import { isInAllowedDomain, numberedUsername, type ProvenPerson } from './person.ts'
import { syncGroups } from './provider-groups.ts'

/**
 * Returns whether everybody at a provider who may sign in gets an account. `SIGN_UP=invited` keeps strangers out: anybody
 * can have an account at a public provider, so only the allowed domains tell who belongs here.
 */
export function givesAccounts(
  { signUp }: Pick<Config, 'signUp'>,
  { allowedDomains }: Pick<ProviderSettings, 'allowedDomains'>,
): boolean {
  return signUp === 'open' || (signUp === 'invited' && allowedDomains.length > 0)
}

const disabled = (site: Site) => `Your account here is disabled. Ask ${anAdministrator(site)}.`

/** The result of a sign-in with a provider. `choose`: the account may be theirs, and they must say whether it is. */
export type Entry =
  | { outcome: 'enter' | 'choose'; account: { id: string; username: string } }
  | { outcome: 'refused'; problem: string }

/** The context of a change of identities. */
export interface SingleSignOn {
  db: pg.Pool
  log: Log
  by: Principal
  provider: ProviderSettings
  site: Site
}

/**
 * Decides which account an identified person gets: the linked one, the one that the provider's own directory has created
 * for them, or a new one. It is never an account that only has the same email or name, because anybody can have a name at
 * a provider.
 */
export async function enter(
  about: SingleSignOn,
  person: ProvenPerson,
  mayMakeAccount: boolean,
): Promise<Entry> {
  const { db, provider, site } = about
  if (!isInAllowedDomain(provider, person)) return refuseDomain(provider, person)
  const { linked, provisioned, similar } = await findAccountsOfPerson(db, person)
  if (linked?.isDisabled || provisioned?.isDisabled) return refuse(disabled(site))
  if (linked) return { outcome: 'enter', account: linked }
  if (provisioned) {
    const problem = await linkAccount(about, { accountId: provisioned.id, passwordHash: null }, person)
    return problem === null ? { outcome: 'enter', account: provisioned } : refuse(problem)
  }
  if (similar?.isDisabled && similar.hasEmail) return refuse(disabled(site))
  if (similar && !similar.isDisabled) return { outcome: 'choose', account: similar }
  if (!mayMakeAccount)
    return refuse(
      `You have no account here, and your sign-in cannot create one. Ask ${anAdministrator(site)} for one.`,
    )
  return makeAccount(about, person)
}

/**
 * Creates an account for a person and links it. If another request has just done so, it returns that account. The account
 * gets the email that the provider has verified, unless another account has verified it.
 */
export async function makeAccount(
  about: SingleSignOn,
  person: ProvenPerson,
  email = person.isEmailVerified ? person.email : null,
): Promise<Entry> {
  const { db, by, provider, site } = about
  const { displayName } = person
  try {
    const account = await withFreeUsername(person.username, (username) =>
      transaction(
        db,
        async (tx) => {
          if (email !== null) await removeUnverifiedEmail(tx, by, email)
          const id = await insertAccountOfPerson(tx, by, {
            username,
            displayName,
            email,
            isEmailVerified: true,
          })
          await insertIdentity(tx, by, { accountId: id, passwordHash: null }, provider.name, person)
          return { id, username }
        },
        by,
      ),
    )
    if (account) return { outcome: 'enter', account }
    return refuse(`No free username was found for you. Ask ${anAdministrator(site)}.`)
  } catch (error) {
    const constraint = brokenConstraint(error)
    if (constraint === 'identity_is_linked') {
      const { linked } = await findAccountsOfPerson(db, person)
      if (linked && !linked.isDisabled) return { outcome: 'enter', account: linked }
      return refuse('Your account changed a moment ago. Try again.')
    }
    if (email !== null && constraint?.startsWith('email_')) return makeAccount(about, person, null)
    throw error
  }
}

/** Calls `make` with a username, and with others like it while that one is taken. Null when all of them are. */
export async function withFreeUsername<Made>(
  wanted: string,
  make: (username: string) => Promise<Made>,
): Promise<Made | null> {
  let username = wanted
  for (let number = 2; number < 30; number += 1) {
    try {
      return await make(username)
    } catch (error) {
      const constraint = brokenConstraint(error)
      if (constraint !== 'username_is_taken' && constraint !== 'username_is_reserved') throw error
      username = numberedUsername(wanted, number < 10 ? number : randomBytes(3).toString('hex'))
    }
  }
  return null
}

/** Links a person to an account. Returns null, or the reason why this is not possible. */
export async function linkAccount(
  { db, by, provider }: SingleSignOn,
  owner: IdentityOwner,
  person: ProvenPerson,
): Promise<string | null> {
  if (!isInAllowedDomain(provider, person)) return refuseDomain(provider, person).problem
  try {
    const isLinked = await transaction(db, (tx) => insertIdentity(tx, by, owner, provider.name, person), by)
    return isLinked
      ? null
      : 'The account was changed or disabled a moment ago, so nothing was linked. Try again.'
  } catch (error) {
    const constraint = brokenConstraint(error)
    if (constraint === 'account_has_an_identity_of_the_issuer') {
      return `This account is linked with ${provider.label} already. Unlink that first.`
    }
    if (constraint !== 'identity_is_linked') throw error
    const { linked } = await findAccountsOfPerson(db, person)
    return linked?.id === owner.accountId
      ? null
      : `Your account at ${provider.label} is linked with another account here.`
  }
}

/** Stores the use of a linked identity, and updates the account's groups from the provider. */
export async function keepInStep(
  { db, log, by, provider }: SingleSignOn,
  account: { id: string; username: string },
  person: ProvenPerson,
): Promise<void> {
  const { isProvisioned, missing } = await transaction(
    db,
    async (tx) => {
      // Two sign-ins at the same time change the memberships one after the other.
      await lockAccount(tx, account.id)
      const isOfDirectory = await noteIdentityUse(tx, provider.name, person)
      // The directory of the provider tells the groups of its users earlier.
      const unknown =
        person.groups === null || isOfDirectory
          ? []
          : await syncGroups(tx, by, account, provider, person.groups)
      return { isProvisioned: isOfDirectory, missing: unknown }
    },
    by,
  )
  // The directory may have given an email that another account had entered. The person proves it now. The locks of this
  // must come in their own order, so it is a transaction of its own.
  if (isProvisioned && person.isEmailVerified && person.email !== null) {
    await proveEmail(db, by, account.id, person.email)
  }
  if (missing.length > 0) {
    log.warn({ provider: provider.name, groups: missing }, 'the group map names groups that do not exist')
  }
}

/**
 * Unlinks an account's identity of an issuer, and ends the memberships that it gave. With `offered`, it refuses to
 * remove the only way to sign in.
 */
export async function unlinkAccount(
  db: pg.Pool,
  by: Principal,
  account: { id: string; username: string },
  issuer: string,
  offered: OfferedWays | null,
): Promise<'unlinked' | 'unknown' | 'only-way'> {
  return transaction(
    db,
    async (tx) => {
      const locked = await lockAccount(tx, account.id)
      const identities = await listIdentities(tx, account.id)
      const unlinked = identities.find((identity) => identity.issuer === issuer)
      if (!locked || !unlinked) return 'unknown'
      if (offered && !(await keepsWayIn(tx, account.id, offered, { issuer }))) return 'only-way'
      await syncGroups(tx, by, account, { name: unlinked.provider, issuer, groupMap: [] }, [])
      await deleteIdentity(tx, by, account.id, issuer)
      return 'unlinked'
    },
    by,
  )
}

function refuse(problem: string): { outcome: 'refused'; problem: string } {
  return { outcome: 'refused', problem }
}

function refuseDomain({ label, allowedDomains }: ProviderSettings, { isEmailVerified }: ProvenPerson) {
  const domains = allowedDomains.join(', ')
  return refuse(
    isEmailVerified
      ? `Your email address at ${label} is in none of the allowed domains (${domains}), so you cannot sign in here.`
      : `${label} has not verified your email address. To sign in here you need a verified email address in one of the allowed domains (${domains}).`,
  )
}
