import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type pg from 'pg'
import { findAccountByUsername, insertAccount, setPasswordHash } from '../../accounts/accounts.ts'
import { hashPassword } from '../../accounts/passwords.ts'
import { insertPersonalToken, revokeTokenWithin } from '../../accounts/personal-tokens.ts'
import { deleteAllSessions } from '../../accounts/sessions.ts'
import { projectRoot } from '../../config.ts'
import { type Queryable, transaction } from '../../database/database.ts'
import { operator } from '../../domain/principal.ts'
import { hashSecret, makeClientId, makePassword, makeSecret } from '../../domain/secrets.ts'
import { insertGroup } from '../../groups/groups.ts'
import { findRepositoryByPath, insertRepository } from '../../groups/repositories.ts'
import { insertApplication, listApplications, rotateClientSecret } from '../../oauth/applications.ts'

/** A demo with its secrets. Only their hashes are stored. */
export interface Demo {
  username: string
  password: string
  /** An administrator of the site. */
  administrator: { username: string; password: string }
  repository: string
  clientId: string
  clientSecret: string
  token: string
}

const name = 'demo'
const administratorName = 'demo-admin'
const applicationName = 'Demo Application'
const tokenDays = 90

/**
 * Creates the demo of a fresh installation in one transaction (CONTRACT 2.1): an account, an administrator, a group with a
 * private repository, an approved application with a loopback Redirect URL, and a personal access token. `last` runs before
 * the commit. Throws when the demo exists already, or when `last` throws. `fillDemo` adds packages.
 */
export async function makeDemo(pool: pg.Pool, last: () => Promise<void> = async () => {}): Promise<Demo> {
  const password = makePassword()
  const clientId = makeClientId()
  const clientSecret = makeSecret('client')
  const token = makeSecret('personal')
  const passwordHash = await hashPassword(password)
  const administrator = { username: administratorName, password: makePassword() }
  const administratorHash = await hashPassword(administrator.password)
  const logo = await readFile(resolve(projectRoot, 'views/demo-logo.png'))
  const repository = await transaction(pool, async (tx) => {
    if (await findAccountByUsername(tx, name)) {
      throw new Error(
        'The demo exists already. svc demo --reset gives it a new password, secret and token, and prints them.',
      )
    }
    const accountId = await insertAccount(tx, operator, {
      username: name,
      displayName: 'Demo',
      email: 'demo@example.com',
      isAdmin: false,
      passwordHash,
    })
    await insertAdministrator(tx, administratorHash)
    const group = await insertGroup(tx, name, accountId)
    const { path } = await insertRepository(tx, { groupId: group.id, name: 'php', visibility: 'private' })
    await insertApplication(tx, {
      clientId,
      name: applicationName,
      description: 'Shows how an application gets a token. It runs on your own machine.',
      website: 'http://127.0.0.1/',
      redirectUri: 'http://127.0.0.1/callback',
      exactRedirect: false,
      logo,
      scopes: ['account-profile:r', 'account-email:r', 'registry-package:rw'],
      resourceScope: 'all',
      status: 'approved',
      isPublic: false,
      isDevice: false,
      isResourceServer: false,
      secretHash: hashSecret(clientSecret),
    })
    await insertDemoToken(tx, accountId, token)
    await last()
    return path
  })
  return { username: name, password, administrator, repository, clientId, clientSecret, token }
}

/** Returns the demo of an installation. Null when it has none. */
export async function findDemo(db: Queryable): Promise<{ repository: string; clientId: string } | null> {
  const repository = await findRepositoryByPath(db, `${name}/php`)
  const application = repository && (await listApplications(db)).find((one) => one.name === applicationName)
  return application ? { repository: repository.path, clientId: application.clientId } : null
}

/** Returns whether an account with this username belongs to the demo, if there is one. */
export const isOfDemo = (username: string) => username === name || username === administratorName

/**
 * Gives the demo a new password, client secret and personal access token; the old ones stop working at once. Throws
 * when a part of the demo is missing, and when an account with a name of the demo is somebody else's.
 */
export async function resetDemo(pool: pg.Pool): Promise<Demo> {
  const password = makePassword()
  const clientSecret = makeSecret('client')
  const token = makeSecret('personal')
  const passwordHash = await hashPassword(password)
  const administrator = { username: administratorName, password: makePassword() }
  const administratorHash = await hashPassword(administrator.password)
  return transaction(pool, async (tx) => {
    const account = await findAccountByUsername(tx, name)
    const repository = await findRepositoryByPath(tx, `${name}/php`)
    const application = (await listApplications(tx)).find((one) => one.name === applicationName)
    if (!account || !repository || !application) {
      throw new Error('The demo is incomplete: its account, repository or application is missing.')
    }
    // The demo of an earlier release has no administrator.
    if (!(await findAccountByUsername(tx, administratorName))) {
      const id = await insertAdministrator(tx, administratorHash)
      // It belongs to the demo, as if it had been created with it.
      await tx.query(
        'update account set created_at = a.created_at from application a where account.id = $1 and a.client_id = $2',
        [id, application.clientId],
      )
    }
    for (const [username, hash] of [
      [name, passwordHash],
      [administratorName, administratorHash],
    ] as const) {
      const accountId = await findOwnAccount(tx, username, application.clientId)
      await setPasswordHash(tx, operator, accountId, hash)
      await deleteAllSessions(tx, operator, accountId)
    }
    await rotateClientSecret(tx, application.clientId, hashSecret(clientSecret), 0)
    await revokeTokenWithin(tx, operator, account.id, { name })
    await insertDemoToken(tx, account.id, token)
    return {
      username: name,
      password,
      administrator,
      repository: repository.path,
      clientId: application.clientId,
      clientSecret,
      token,
    }
  })
}

/**
 * Returns the id of an account of the demo. One transaction creates the demo, so its accounts and its application were
 * created at the same microsecond. Throws for an account that was created at another time: it is somebody else's.
 */
async function findOwnAccount(tx: pg.PoolClient, username: string, clientId: string): Promise<string> {
  const { rows } = await tx.query<{ id: string }>(
    `select id from account
      where username = $1 and created_at = (select created_at from application where client_id = $2)`,
    [username, clientId],
  )
  const [account] = rows
  if (account) return account.id
  throw new Error(
    `Nothing was changed: the account ${username} was not created with the demo, so it is somebody else's. Rename it with svc account rename, and try again.`,
  )
}

/** Adds the administrator, and returns the id. */
async function insertAdministrator(tx: pg.PoolClient, passwordHash: string): Promise<string> {
  return insertAccount(tx, operator, {
    username: administratorName,
    displayName: 'Demo Administrator',
    email: 'demo-admin@example.com',
    isAdmin: true,
    passwordHash,
  })
}

async function insertDemoToken(tx: pg.PoolClient, accountId: string, token: string): Promise<void> {
  await insertPersonalToken(tx, operator, {
    accountId,
    name,
    tokenHash: hashSecret(token),
    scopes: ['registry-package:rw'],
    resourceScope: 'all',
    repositoryIds: [],
    isAdmin: false,
    expiry: { inDays: tokenDays },
  })
}
