import { Argument, Command, Option } from 'commander'
import { exportAccount } from '../accounts/account-export.ts'
import { chooseHeir, deleteAccount, disableAccount, enableAccount } from '../accounts/account-lifecycle.ts'
import {
  type AccountChanges,
  type AccountDetails,
  changeAccount,
  findAccountDetails,
  insertAccount,
  listAccounts,
} from '../accounts/accounts.ts'
import { hashPassword } from '../accounts/passwords.ts'
import { findFactors } from '../accounts/second-factor/factors.ts'
import { listPasskeys, type Passkey } from '../accounts/second-factor/passkeys.ts'
import { unlinkAccount } from '../accounts/single-sign-on/enter.ts'
import { type Identity, listIdentities } from '../accounts/single-sign-on/identities.ts'
import { commandActor, transaction } from '../database/database.ts'
import { listAuthorizations } from '../oauth/authorizations.ts'
import { commandLine } from '../registry/tables/events.ts'
import {
  removePasskeyCommand,
  resetFactorsCommand,
  revokeAllCommand,
  withdrawCommand,
} from './account-access.ts'
import {
  choosePassword,
  type JsonOptions,
  onAccount,
  type PasswordOptions,
  passwordOption,
  passwordStdinOption,
  resetLinkCommand,
  setPasswordCommand,
  tellPassword,
  verificationLinkCommand,
} from './account-password.ts'
import { inviteAccountCommand } from './invitation.ts'
import { jsonOption, type SearchOptions, searchOption, withListOptions } from './options.ts'
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
    .action(createAccount)
}

async function createAccount(username: string, options: CreateOptions): Promise<void> {
  const password = await choosePassword(username, options)
  const passwordHash = await hashPassword(password)
  await withDatabase((db) =>
    transaction(
      db,
      (tx) =>
        insertAccount(tx, {
          username,
          displayName: options.name ?? '',
          email: options.email ?? null,
          isAdmin: options.admin ?? false,
          passwordHash,
        }),
      commandActor,
    ),
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
    .action((options: SearchOptions) =>
      withDatabase((db) =>
        printList<AccountDetails>(options, {
          list: (part) => listAccounts(db, part, options.search),
          keyOf: ({ username }) => username,
          describe: describeAccount,
          line: ({ username, email, isAdmin, disabledAt }) =>
            [username, email ?? '', isAdmin ? 'admin' : '', disabledAt ? 'disabled' : '']
              .filter((word) => word !== '')
              .join('  '),
          none: 'There are no accounts.',
        }),
      ),
    )
}

function showCommand(): Command {
  return onAccount('show', 'Show an account.').action(async (username: string, options: JsonOptions) => {
    const { account, identities, factors, passkeys, authorizations } = await withDatabase(async (db) => {
      const account = await findAccountDetails(db, username)
      if (!account) throw new Error(`There is no account ${JSON.stringify(username)}.`)
      return {
        account,
        identities: await listIdentities(db, account.id),
        factors: await findFactors(db, account.id),
        passkeys: await listPasskeys(db, account.id),
        authorizations: await listAuthorizations(db, account.id),
      }
    })
    const { totpSince, recoveryCodes } = factors
    const details = {
      ...describeAccount(account),
      authenticator_app: totpSince !== null,
      passkeys: passkeys.map(describePasskey),
      recovery_codes: recoveryCodes,
      applications: authorizations.map(({ clientId }) => clientId),
    }
    const shown = {
      ...details,
      passkeys: passkeys.map(({ id, name }) => `${id} (${name})`),
      identities: identities.map(({ provider, email }) => (email ? `${provider}:${email}` : provider)),
    }
    const lines = Object.entries(shown).map(([name, value]) => `${name.padEnd(17)}  ${formatValue(value)}`)
    printResult(options, { ...details, identities: identities.map(describeIdentity) }, lines.join('\n'))
  })
}

function setNameCommand(): Command {
  return onAccount('set-name', 'Set the display name of an account.')
    .argument('<name>', 'at most 100 characters; empty removes it')
    .action(async (username: string, name: string, options: JsonOptions) => {
      await change(username, { displayName: name })
      printResult(options, { username, name }, `Name of ${username}: ${name || 'none'}`)
    })
}

function exportCommand(): Command {
  const description = 'Print all that is stored about an account, without secrets, as one JSON document.'
  return onAccount('export', description).action(async (username: string) => {
    const exported = await withDatabase(async (db) => exportAccount(db, (await theAccount(db, username)).id))
    if (!exported) throw new Error(`There is no account ${JSON.stringify(username)}.`)
    printResult({ json: true }, exported, '')
  })
}

function setEmailCommand(): Command {
  return onAccount('set-email', 'Set the email address of an account. It counts as not verified.')
    .argument('<email>', 'an email address, or none to remove it')
    .action(async (username: string, given: string, options: JsonOptions) => {
      const email = given === 'none' ? null : given
      await change(username, { email })
      printResult(options, { username, email }, `Email of ${username}: ${email ?? 'none'}`)
    })
}

function renameCommand(): Command {
  return onAccount('rename', 'Change the username of an account. Its tokens, roles and packages stay.')
    .argument('<new username>', 'lower-case letters and digits, with single . _ or - between them')
    .action(async (username: string, newUsername: string, options: JsonOptions) => {
      await change(username, { username: newUsername })
      printResult(options, { username: newUsername }, `Account ${username} is now ${newUsername}.`)
    })
}

function setAdminCommand(): Command {
  return onAccount('set-admin', 'Make an account a site administrator, or an ordinary account again.')
    .addArgument(new Argument('<state>', 'whether it is a site administrator').choices(['on', 'off']))
    .action(async (username: string, state: string, options: JsonOptions) => {
      const isAdmin = state === 'on'
      await change(username, { isAdmin })
      printResult(
        options,
        { username, admin: isAdmin },
        `${username} is ${isAdmin ? 'a' : 'no'} site administrator.`,
      )
    })
}

function disableCommand(): Command {
  const description = 'Disable an account: its sessions end, and all its tokens stop at once.'
  return onAccount('disable', description).action(async (username: string, options: JsonOptions) => {
    await withDatabase(async (db) => disableAccount(db, commandActor, (await theAccount(db, username)).id))
    printResult(options, { username, disabled: true }, `Account ${username} disabled.`)
  })
}

function enableCommand(): Command {
  const description = 'Enable a disabled account. Its tokens work again; its sessions have ended.'
  return onAccount('enable', description).action(async (username: string, options: JsonOptions) => {
    await withDatabase(async (db) => enableAccount(db, commandActor, (await theAccount(db, username)).id))
    printResult(options, { username, disabled: false }, `Account ${username} enabled.`)
  })
}

interface DeleteOptions extends JsonOptions {
  groupsTo?: string
  leaveGroups?: boolean
}

function deleteCommand(): Command {
  const heirs = new Option(
    '--groups-to <username>',
    'make this account the admin of groups that would lose their only admin',
  )
  return onAccount(
    'delete',
    'Delete an account for good. Packages and events stay. Its username is free after 90 days.',
  )
    .addOption(heirs.conflicts('leaveGroups'))
    .option('--leave-groups', 'leave these groups without an admin: only site administrators can manage them')
    .action(async (username: string, options: DeleteOptions) => {
      const { outcome, groups } = await withDatabase(async (db) => {
        const account = await theAccount(db, username)
        const { groupsTo: heir = null, leaveGroups: isLeft = false } = options
        const chosen = await chooseHeir(db, username, { heir, isLeft })
        if (typeof chosen === 'string') throw new Error(chosen)
        return deleteAccount(db, commandActor, commandLine, account, chosen.orphanedGroups)
      })
      if (outcome === 'refused') {
        throw new Error(
          `${username} is the only admin of ${groups.join(', ')}: use --groups-to <username> or --leave-groups.`,
        )
      }
      printResult(options, { username, groups }, `Account ${username} deleted.`)
    })
}

function change(username: string, changes: AccountChanges): Promise<void> {
  return withDatabase(async (db) => {
    const { id } = await theAccount(db, username)
    await transaction(db, (tx) => changeAccount(tx, id, changes), commandActor)
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

function unlinkCommand(): Command {
  return onAccount(
    'unlink',
    'Unlink an account from a sign-in provider. Memberships that the provider gave end.',
  )
    .argument('<provider>', 'the name or issuer of a provider, as svc account show prints it')
    .action(async (username: string, provider: string, options: JsonOptions) => {
      await withDatabase(async (db) => {
        const account = await theAccount(db, username)
        const identities = await listIdentities(db, account.id)
        const identity = identities.find((one) => one.provider === provider || one.issuer === provider)
        if (!identity) throw new Error(`${username} is not linked with ${JSON.stringify(provider)}.`)
        await unlinkAccount(db, commandActor, account, identity.issuer, null)
      })
      printResult(options, { username, provider }, `${username} is not linked with ${provider} any more.`)
    })
}

function describePasskey({ id, name, createdAt, lastUsedAt }: Passkey): Record<string, unknown> {
  return { id: Number(id), name, created_at: createdAt, last_used_at: lastUsedAt }
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
