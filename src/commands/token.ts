import { Command } from 'commander'
import type pg from 'pg'
import {
  createPersonalToken,
  listTokensOf,
  type PersonalToken,
  revokePersonalToken,
} from '../accounts/personal-tokens.ts'
import type { Expiry } from '../domain/expiry.ts'
import { type ResourceScope, siteScopes } from '../domain/permissions.ts'
import { operator } from '../domain/principal.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import {
  daysOrNever,
  type JsonOptions,
  jsonOption,
  type ListOptions,
  resourceScopeOption,
  scopeOption,
  scopesHelp,
  withListOptions,
} from './options.ts'
import { printList, printResult, theAccount, theRepository, withDatabase } from './run.ts'

interface CreateOptions extends JsonOptions {
  name: string
  scope?: string[]
  admin?: boolean
  resourceScope?: ResourceScope
  repository?: string[]
  expiresInDays: number | 'never'
}

const defaultDays = 90

/** `svc token …` */
export function tokenCommand(): Command {
  return new Command('token')
    .description('Personal access tokens: the passwords that Composer and curl use for svc.')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(revokeCommand())
}

function createCommand(): Command {
  return new Command('create')
    .description('Create a personal access token. It is printed once.')
    .argument('<username>', 'the account that it acts for')
    .requiredOption('--name <name>', 'what it is for')
    .addOption(scopeOption().makeOptionMandatory(false))
    .addOption(
      resourceScopeOption('which repositories it may access (default: all; with --repository: specified)'),
    )
    .option('--repository <paths...>', 'the repositories that it may access, such as acme/php')
    .option('--expires-in-days <days>', 'lifetime in days; never: no expiration', daysOrNever, defaultDays)
    .option(
      '--admin',
      'for site administration: it has the right of its owner, a site administrator, and ends when the owner loses the role',
    )
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc token create ann --name laptop --scope registry-package:rw')
    .addHelpText('after', scopesHelp)
    .action(createToken)
}

async function createToken(username: string, options: CreateOptions): Promise<void> {
  const { name, repository: paths = [], expiresInDays, admin: isAdmin = false } = options
  const scopes = options.scope ?? (isAdmin ? siteScopes : null)
  if (scopes === null) throw new Error('Name the permissions with --scope.')
  const resourceScope = options.resourceScope ?? (paths.length > 0 ? 'specified' : 'all')
  if ((resourceScope === 'specified') !== paths.length > 0) {
    throw new Error('Use --resource-scope specified together with --repository.')
  }
  const expiry: Expiry = expiresInDays === 'never' ? 'never' : { inDays: expiresInDays }
  const { token, expiresAt } = await withDatabase(async (db, config) => {
    const { id: accountId } = await theAccount(db, username)
    const repositoryIds = await findRepositoryIds(db, paths)
    const wanted = { accountId, name, scopes, resourceScope, repositoryIds, expiry, isAdmin }
    return createPersonalToken(db, config, operator, wanted)
  })
  const end = expiresAt ? `until ${expiresAt.toISOString()}` : 'without expiration'
  printResult(
    options,
    { token, name, expires_at: expiresAt },
    `Token ${name} created, valid ${end}. Shown only once: ${token}`,
  )
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description(
      'List the tokens of an account, or of all accounts, oldest first. Revoked tokens are not listed.',
    )
    .argument('[username]', 'the account that they act for')
    .action((username: string | undefined, options: ListOptions) =>
      withDatabase(async (db) => {
        const accountId = username === undefined ? null : (await theAccount(db, username)).id
        await printList<PersonalToken & { username: string }>(options, {
          list: (part) => listTokensOf(db, accountId, part),
          keyOf: ({ id }) => id,
          describe: (token) => ({
            username: token.username,
            name: token.name,
            scopes: token.scopes,
            resource_scope: token.resourceScope,
            repositories: token.repositories,
            created_at: token.createdAt,
            last_used_at: token.lastUsedAt,
            expires_at: token.expiresAt,
            expired: token.isExpired,
            admin: token.isAdmin,
          }),
          line: ({ username: owner, name, scopes, expiresAt, isAdmin }) =>
            `${owner}  ${name}  ${isAdmin ? 'admin  ' : ''}${scopes.join(' ')}  ${expiresAt ? `until ${expiresAt.toISOString()}` : 'no expiration'}`,
          none: 'There are no tokens.',
        })
      }),
    )
}

function revokeCommand(): Command {
  return new Command('revoke')
    .description('Revoke a personal access token at once.')
    .argument('<username>', 'the account that it acts for')
    .requiredOption('--name <name>', 'the name it was made with')
    .addOption(forceOption())
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc token revoke ann --name laptop')
    .action(async (username: string, options: { name: string } & ForceOptions) => {
      const { name } = options
      const revoked = await withDatabase(async (db) => {
        const { id } = await theAccount(db, username)
        await confirmInTerminal(`This ends the token ${name} of ${username} for good.`, name, options)
        return revokePersonalToken(db, operator, id, { name })
      })
      if (revoked === null) throw new Error(`${username} has no token ${JSON.stringify(name)}.`)
      printResult(options, { username, name }, `Token ${name} of ${username} revoked.`)
    })
}

async function findRepositoryIds(db: pg.Pool, paths: string[]): Promise<string[]> {
  const repositories = await Promise.all(paths.map((path) => theRepository(db, path)))
  return repositories.map(({ id }) => id)
}
