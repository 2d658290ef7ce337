import type { Command } from 'commander'
import { revokeAllAccess } from '../accounts/account-lifecycle.ts'
import { removePasskey, resetFactors } from '../accounts/second-factor/factors.ts'
import { listPasskeys } from '../accounts/second-factor/passkeys.ts'
import { formatCount } from '../domain/formats.ts'
import { operator } from '../domain/principal.ts'
import { readRowId } from '../domain/row-id.ts'
import {
  endGrant,
  findLiveGrant,
  listAuthorizations,
  withdrawAuthorization,
} from '../oauth/authorizations.ts'
import { onAccount } from './account-password.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { printResult, theAccount, withDatabase } from './run.ts'

/** `svc account reset-factors` */
export function resetFactorsCommand(): Command {
  const description = 'Remove the second factors and recovery codes of somebody who lost them.'
  return onAccount('reset-factors', description)
    .addOption(forceOption())
    .action(async (username: string, options: ForceOptions) => {
      const removed = await withDatabase(async (db) => {
        const { id } = await theAccount(db, username)
        const effect = `This removes all second factors and recovery codes of ${username} for good.`
        await confirmInTerminal(effect, username, options)
        return resetFactors(db, operator, id)
      })
      printResult(options, { username, removed }, `${username} has no second factor now: ${removed} removed.`)
    })
}

/** `svc account remove-passkey` */
export function removePasskeyCommand(): Command {
  const description =
    'Remove one passkey of an account, unless it is the only way to sign in. Its recovery codes go with the last factor.'
  return onAccount('remove-passkey', description)
    .argument('<passkey>', 'the number of a passkey, as svc account show prints it')
    .addOption(forceOption())
    .addHelpText('after', '\nExample:\n  svc account remove-passkey ann 17')
    .action(async (username: string, passkey: string, options: ForceOptions) => {
      if (readRowId(passkey) === null) {
        throw new Error('A passkey is given by its number: svc account show prints it.')
      }
      const outcome = await withDatabase(async (db, config) => {
        const { id: accountId } = await theAccount(db, username)
        const known = (await listPasskeys(db, accountId)).find(({ id }) => id === passkey)
        if (!known) return 'unknown'
        await confirmInTerminal(`This removes a passkey of ${username} for good.`, known.name, options)
        return removePasskey(db, operator, accountId, passkey, config, null)
      })
      if (outcome === 'unknown') throw new Error(`${username} has no passkey ${passkey}.`)
      if (outcome === 'only-way') {
        throw new Error(
          `Passkey ${passkey} is the only way of ${username} to sign in. Set a password first: svc account set-password.`,
        )
      }
      printResult(
        options,
        { username, passkey: Number(passkey) },
        `Passkey ${passkey} of ${username} removed.`,
      )
    })
}

/** `svc account withdraw` */
export function withdrawCommand(): Command {
  const description =
    'Withdraw the authorization of one application: all its tokens for the account stop at once. Or end one of its grants.'
  return onAccount('withdraw', description)
    .argument('<client_id>', 'an application of the account, as svc account show prints it')
    .option('--grant <number>', 'end only this login, sign-in or access, as svc account show prints it')
    .addOption(forceOption())
    .addHelpText('after', '\nExample:\n  svc account withdraw ann k2ma5aoyw2c473cwlop7')
    .action(async (username: string, clientId: string, options: ForceOptions & { grant?: string }) => {
      const { grant } = options
      if (grant !== undefined) {
        await withDatabase(async (db) => {
          const { id } = await theAccount(db, username)
          const found = readRowId(grant) === null ? null : await findLiveGrant(db, id, grant)
          if (found?.clientId !== clientId)
            throw new Error(`${username} has no grant ${JSON.stringify(grant)} of ${clientId}.`)
          const effect = `This ends the tokens of one ${found.kind} of ${found.name} for ${username}.`
          await confirmInTerminal(effect, found.name, options)
          await endGrant(db, operator, id, grant)
        })
        const ended = { username, client_id: clientId, grant: Number(grant) }
        return printResult(options, ended, `Grant ${grant} of ${clientId} by ${username} has ended.`)
      }
      await withDatabase(async (db) => {
        const { id } = await theAccount(db, username)
        const authorization = (await listAuthorizations(db, id)).find((one) => one.clientId === clientId)
        if (!authorization) {
          throw new Error(`${username} has not authorized an application ${JSON.stringify(clientId)}.`)
        }
        const { name } = authorization
        await confirmInTerminal(`This ends all tokens that ${name} has for ${username}.`, name, options)
        await withdrawAuthorization(db, operator, id, authorization.id)
      })
      printResult(
        options,
        { username, client_id: clientId },
        `The authorization of ${clientId} by ${username} is withdrawn.`,
      )
    })
}

/** `svc account revoke-all` */
export function revokeAllCommand(): Command {
  const description =
    'Revoke all personal access tokens and withdraw all applications of an account. Sessions stay.'
  return onAccount('revoke-all', description)
    .addOption(forceOption())
    .action(async (username: string, options: ForceOptions) => {
      const revoked = await withDatabase(async (db) => {
        const { id } = await theAccount(db, username)
        const effect = `This ends all tokens of ${username} and of the applications that act for them.`
        await confirmInTerminal(effect, username, options)
        return revokeAllAccess(db, operator, id)
      })
      const text = `${formatCount(revoked.tokens, 'token')} and ${formatCount(revoked.applications, 'application')} of ${username} revoked.`
      printResult(options, { username, ...revoked }, text)
    })
}
