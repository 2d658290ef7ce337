import { Command, Option } from 'commander'
import { exportAccount } from '../accounts/account-export.ts'
import { createAccount } from '../accounts/account-lifecycle.ts'
import {
  type AccountDetails,
  type AccountState,
  accountStates,
  findAccountDetails,
  listAccounts,
} from '../accounts/accounts.ts'
import { findFactors } from '../accounts/second-factor/factors.ts'
import { listPasskeys, type Passkey } from '../accounts/second-factor/passkeys.ts'
import { type Identity, listIdentities } from '../accounts/single-sign-on/identities.ts'
import { operator } from '../domain/principal.ts'
import { type LiveGrant, listAuthorizations, listLiveGrants } from '../oauth/authorizations.ts'
import {
  deleteCommand,
  disableCommand,
  enableCommand,
  renameCommand,
  setAdminCommand,
  setEmailCommand,
  setNameCommand,
  unlinkCommand,
} from './account-changes.ts'
import {
  choosePassword,
  onAccount,
  type PasswordOptions,
  passwordOption,
  passwordStdinOption,
  resetLinkCommand,
  setPasswordCommand,
  tellPassword,
  verificationLinkCommand,
} from './account-password.ts'
import {
  removePasskeyCommand,
  resetFactorsCommand,
  revokeAllCommand,
  withdrawCommand,
} from './account-revocations.ts'
import { inviteAccountCommand } from './invitation.ts'
import { type JsonOptions, jsonOption, type SearchOptions, searchOption, withListOptions } from './options.ts'
import { formatValue, printList, printResult, theAccount, withDatabase } from './run.ts'

interface CreateOptions extends PasswordOptions {
  email?: string
  name?: string
  admin?: boolean
}

/** `svc account …` */
export function accountCommand(): Command {
  return new Command('account')
    .description('People who sign in.')
    .addCommand(createCommand())
    .addCommand(inviteAccountCommand())
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(setPasswordCommand())
    .addCommand(resetLinkCommand())
    .addCommand(verificationLinkCommand())
    .addCommand(resetFactorsCommand())
    .addCommand(removePasskeyCommand())
    .addCommand(setNameCommand())
    .addCommand(setEmailCommand())
    .addCommand(renameCommand())
    .addCommand(setAdminCommand())
    .addCommand(exportCommand())
    .addCommand(withdrawCommand())
    .addCommand(revokeAllCommand())
    .addCommand(disableCommand())
    .addCommand(enableCommand())
    .addCommand(unlinkCommand())
    .addCommand(deleteCommand())
}

function createCommand(): Command {
  return new Command('create')
    .description('Create an account. Without a password it gets a generated one, which is printed once.')
    .argument('<username>', 'lower-case letters and digits, with single . _ or - between them')
    .option('--email <address>', 'email address')
    .option('--name <name>', 'display name')
    .option('--admin', 'site administrator: counts as admin of every group and repository')
    .addOption(passwordOption())
    .addOption(passwordStdinOption())
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc account create ann --email ann@example.com --name "Ann Lee"')
    .action(createFromOptions)
}

async function createFromOptions(username: string, options: CreateOptions): Promise<void> {
  const password = await choosePassword(username, options)
  await withDatabase((db) =>
    createAccount(db, operator, {
      username,
      displayName: options.name ?? '',
      email: options.email ?? null,
      isAdmin: options.admin ?? false,
      password,
    }),
  )
  printResult(
    options,
    { username, password },
    `Account ${username} created.${tellPassword(options, password)}`,
  )
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the accounts by username.')
    .addOption(searchOption('only those with this text in their username, name or email'))
    .addOption(
      new Option(
        '--state <state>',
        'only those in this state; the first two leave out disabled ones',
      ).choices(accountStates),
    )
    .action((options: SearchOptions & { state?: AccountState }) =>
      withDatabase((db) =>
        printList<AccountDetails>(options, {
          list: (part) => listAccounts(db, part, options),
          keyOf: ({ username }) => username,
          describe: describeAccount,
          line: ({ username, email, isAdmin, disabledAt }) =>
            [username, email ?? '', isAdmin ? 'admin' : '', disabledAt ? 'disabled' : '']
              .filter((word) => word !== '')
              .join('  '),
          none: options.search || options.state ? 'There are no such accounts.' : 'There are no accounts.',
        }),
      ),
    )
}

function showCommand(): Command {
  return onAccount('show', 'Show an account.').action(async (username: string, options: JsonOptions) => {
    const { account, identities, factors, passkeys, authorizations, grants } = await withDatabase(
      async (db) => {
        const account = await findAccountDetails(db, username)
        if (!account) throw new Error(`There is no account ${JSON.stringify(username)}.`)
        return {
          account,
          identities: await listIdentities(db, account.id),
          factors: await findFactors(db, account.id),
          passkeys: await listPasskeys(db, account.id),
          authorizations: await listAuthorizations(db, account.id),
          grants: await listLiveGrants(db, account.id, 20),
        }
      },
    )
    const { totpSince, recoveryCodes } = factors
    const details = {
      ...describeAccount(account),
      authenticator_app: totpSince !== null,
      passkeys: passkeys.map(describePasskey),
      recovery_codes: recoveryCodes,
      applications: authorizations.map(({ clientId }) => clientId),
      grants: grants.map(describeGrant),
    }
    const clientOf = new Map(authorizations.map(({ id, clientId }) => [id, clientId]))
    const shown = {
      ...details,
      grants: grants.map(({ id, authorizationId, kind, deviceIp }) =>
        [`${id} (${kind} of ${clientOf.get(authorizationId)}`, deviceIp]
          .filter(Boolean)
          .join(', ')
          .concat(')'),
      ),
      passkeys: passkeys.map(({ id, name }) => `${id} (${name})`),
      identities: identities.map(({ provider, email }) => (email ? `${provider}:${email}` : provider)),
    }
    const lines = Object.entries(shown).map(([name, value]) => `${name.padEnd(17)}  ${formatValue(value)}`)
    printResult(options, { ...details, identities: identities.map(describeIdentity) }, lines.join('\n'))
  })
}

function exportCommand(): Command {
  const description =
    'Print all that is stored about an account, without secrets, as one JSON document with at most the latest 10,000 events.'
  return onAccount('export', description).action(async (username: string) => {
    const exported = await withDatabase(async (db) => exportAccount(db, (await theAccount(db, username)).id))
    if (!exported) throw new Error(`There is no account ${JSON.stringify(username)}.`)
    printResult({ json: true }, exported, '')
  })
}

function describeAccount(account: AccountDetails): Record<string, unknown> {
  return {
    username: account.username,
    name: account.displayName,
    email: account.email,
    email_verified_at: account.emailVerifiedAt,
    admin: account.isAdmin,
    groups: account.groups,
    sessions: account.sessions,
    tokens: account.tokens,
    created_at: account.createdAt,
    last_seen_at: account.lastSeenAt,
    disabled_at: account.disabledAt,
  }
}

function describePasskey({ id, name, createdAt, lastUsedAt }: Passkey): Record<string, unknown> {
  return { id: Number(id), name, created_at: createdAt, last_used_at: lastUsedAt }
}

function describeGrant({ id, kind, deviceIp, grantedAt, lastUsedAt }: LiveGrant): Record<string, unknown> {
  return { id: Number(id), kind, device_ip: deviceIp, granted_at: grantedAt, last_used_at: lastUsedAt }
}

function describeIdentity(identity: Identity): Record<string, unknown> {
  return {
    provider: identity.provider,
    issuer: identity.issuer,
    subject: identity.subject,
    email: identity.email,
    linked_at: identity.linkedAt,
    last_used_at: identity.lastUsedAt,
  }
}
