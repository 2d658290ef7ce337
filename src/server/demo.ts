import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type pg from 'pg'
import { findAccountByUsername, insertAccount } from '../accounts/accounts.ts'
import { hashPassword } from '../accounts/passwords.ts'
import { insertPersonalToken } from '../accounts/personal-tokens.ts'
import { projectRoot } from '../config.ts'
import { transaction } from '../database/database.ts'
import { hashSecret, makeClientId, makePassword, makeSecret } from '../domain/secrets.ts'
import { insertApplication } from '../oauth/applications.ts'
import { insertGroup } from '../repositories/groups.ts'
import { insertRepository } from '../repositories/repositories.ts'

/** What a demo consists of, its secrets included: nothing but this answer has them. */
export interface Demo {
  username: string
  password: string
  repository: string
  clientId: string
  clientSecret: string
  token: string
}

const name = 'demo'
const tokenDays = 90

/**
 * Makes the demo of a fresh installation, whole or not at all (DESIGN §2): an account, a group with a private
 * repository, an approved application with a loopback Redirect URL, and a personal access token. Throws when it is
 * there already, or when what comes last before it counts does.
 */
export async function makeDemo(pool: pg.Pool, last: () => Promise<void> = async () => {}): Promise<Demo> {
  const password = makePassword()
  const clientId = makeClientId()
  const clientSecret = makeSecret('client')
  const token = makeSecret('personal')
  const passwordHash = await hashPassword(password)
  const logo = await readFile(resolve(projectRoot, 'views/demo-logo.png'))
  const repository = await transaction(pool, async (tx) => {
    if (await findAccountByUsername(tx, name)) {
      throw new Error('The demo is there already. Its secrets were printed once, when it was made.')
    }
    const accountId = await insertAccount(tx, {
      username: name,
      displayName: 'Demo',
      email: 'demo@example.com',
      isAdmin: false,
      passwordHash,
    })
    const group = await insertGroup(tx, name, accountId)
    const { path } = await insertRepository(tx, { groupId: group.id, name: 'php', visibility: 'private' })
    await insertApplication(tx, {
      clientId,
      name: 'Demo Application',
      description: 'Shows how an application gets a token. It runs on your own machine.',
      website: 'http://127.0.0.1/',
      redirectUri: 'http://127.0.0.1/callback',
      exactRedirect: false,
      logo,
      scopes: ['account-profile:r', 'account-email:r', 'registry-package:rw'],
      resourceScope: 'all',
      status: 'approved',
      isResourceServer: false,
      secretHash: hashSecret(clientSecret),
    })
    await insertPersonalToken(tx, {
      accountId,
      name,
      tokenHash: hashSecret(token),
      scopes: ['registry-package:rw'],
      resourceScope: 'all',
      repositoryIds: [],
      expiry: { inDays: tokenDays },
    })
    await last()
    return path
  })
  return { username: name, password, repository, clientId, clientSecret, token }
}
