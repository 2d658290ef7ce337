import { Argument, type Command, Option } from 'commander'
import {
  chooseHeir,
  deleteAccount,
  disableAccount,
  enableAccount,
  updateAccount,
} from '../accounts/account-lifecycle.ts'
import type { AccountChanges } from '../accounts/accounts.ts'
import { unlinkAccount } from '../accounts/single-sign-on/enter.ts'
import { listIdentities } from '../accounts/single-sign-on/identities.ts'
import { operator } from '../domain/principal.ts'
import {
  confirmEnding,
  describeEnded,
  type EndingOptions,
  endEverythingOption,
  onAccount,
  tellEnded,
} from './account-password.ts'
import { confirm, type ForceOptions, forceOption } from './confirm.ts'
import type { JsonOptions } from './options.ts'
import { printResult, theAccount, withDatabase } from './run.ts'

/** `svc account set-name` */
export function setNameCommand(): Command {
  return onAccount('set-name', 'Set the display name of an account.')
    .argument('<name>', 'at most 100 characters; empty removes it')
    .action(async (username: string, name: string, options: JsonOptions) => {
      await change(username, { displayName: name })
      printResult(options, { username, name }, `Name of ${username}: ${name || 'none'}`)
    })
}

/** `svc account set-email` */
export function setEmailCommand(): Command {
  return onAccount('set-email', 'Set the email address of an account. It counts as not verified.')
    .argument('<email>', 'an email address, or none to remove it')
    .action(async (username: string, given: string, options: JsonOptions) => {
      const email = given === 'none' ? null : given
      await change(username, { email })
      printResult(options, { username, email }, `Email of ${username}: ${email ?? 'none'}`)
    })
}

/** `svc account rename` */
export function renameCommand(): Command {
  const description =
    'Change the username of an account. Its tokens, roles and packages stay. No other account can have its old username for 90 days. This applies to its last ten former usernames.'
  return onAccount('rename', description)
    .argument('<new username>', 'lower-case letters and digits, with single . _ or - between them')
    .option('--force', 'take the username also if another account had it less than 90 days ago')
    .action(async (username: string, newUsername: string, options: { force?: boolean } & JsonOptions) => {
      await change(username, { username: newUsername }, options)
      printResult(options, { username: newUsername }, `Account ${username} is now ${newUsername}.`)
    })
}

/** `svc account set-admin` */
export function setAdminCommand(): Command {
  const description =
    'Make an account a site administrator, or an ordinary account again. Its admin tokens end.'
  return onAccount('set-admin', description)
    .addArgument(new Argument('<state>', 'whether it is a site administrator').choices(['on', 'off']))
    .action(async (username: string, state: string, options: JsonOptions) => {
      const isAdmin = state === 'on'
      await change(username, { isAdmin })
      const text = `${username} is ${isAdmin ? 'a' : 'no'} site administrator.`
      printResult(options, { username, admin: isAdmin }, text)
    })
}

/** `svc account disable` */
export function disableCommand(): Command {
  const description =
    'Disable an account: its sessions end, and all its tokens stop at once. They work again when it is enabled, unless you end everything.'
  return onAccount('disable', description)
    .addOption(endEverythingOption())
    .addOption(forceOption())
    .action(async (username: string, options: EndingOptions) => {
      const ended = await withDatabase(async (db) => {
        const { id } = await theAccount(db, username)
        return disableAccount(db, operator, id, await confirmEnding(username, options))
      })
      const text = `Account ${username} disabled.${tellEnded(ended)}`
      printResult(options, { username, disabled: true, ...describeEnded(ended) }, text)
    })
}

/** `svc account enable` */
export function enableCommand(): Command {
  const description =
    'Enable a disabled account. Tokens that were not revoked work again; its sessions have ended.'
  return onAccount('enable', description).action(async (username: string, options: JsonOptions) => {
    await withDatabase(async (db) => enableAccount(db, operator, (await theAccount(db, username)).id))
    printResult(options, { username, disabled: false }, `Account ${username} enabled.`)
  })
}

/** `svc account unlink` */
export function unlinkCommand(): Command {
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
        await unlinkAccount(db, operator, account, identity.issuer, null)
      })
      printResult(options, { username, provider }, `${username} is not linked with ${provider} any more.`)
    })
}

interface DeleteOptions extends ForceOptions {
  groupsTo?: string
  leaveGroups?: boolean
}

/** `svc account delete` */
export function deleteCommand(): Command {
  const heirs = new Option(
    '--groups-to <username>',
    'make this account the admin of groups that would lose their only admin',
  )
  return onAccount(
    'delete',
    'Permanently delete an account. Packages and events stay. Its username is free after 90 days.',
  )
    .addOption(heirs.conflicts('leaveGroups'))
    .option('--leave-groups', 'leave these groups without an admin: only site administrators can manage them')
    .addOption(forceOption())
    .action(async (username: string, options: DeleteOptions) => {
      const { outcome, groups } = await withDatabase(async (db) => {
        const account = await theAccount(db, username)
        const { groupsTo: heir = null, leaveGroups: isLeft = false } = options
        const chosen = await chooseHeir(db, username, { heir, isLeft })
        if (typeof chosen === 'string') throw new Error(chosen)
        const effect = `This deletes the account ${username} for good, with its sessions, tokens, authorizations and roles.`
        await confirm(effect, username, options)
        return deleteAccount(db, operator, account, chosen.orphanedGroups)
      })
      if (outcome === 'refused') {
        throw new Error(
          `${username} is the only admin of ${groups.join(', ')}: use --groups-to <username> or --leave-groups.`,
        )
      }
      printResult(options, { username, groups }, `Account ${username} deleted.`)
    })
}

function change(
  username: string,
  changes: AccountChanges,
  { force = false }: { force?: boolean } = {},
): Promise<void> {
  return withDatabase(async (db) => {
    const { id } = await theAccount(db, username)
    await updateAccount(db, operator, id, { ...changes, isReleased: force })
  })
}
