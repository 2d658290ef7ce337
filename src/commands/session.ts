import { Command } from 'commander'
import { endSessions, type ListedSession, listSessions } from '../accounts/sessions.ts'
import { formatCount } from '../domain/formats.ts'
import { operator } from '../domain/principal.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theAccount, withDatabase } from './run.ts'

/** `svc session …` */
export function sessionCommand(): Command {
  return new Command('session')
    .description('Browsers that are signed in.')
    .addCommand(listCommand())
    .addCommand(revokeCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the sessions of an account, or of all accounts.')
    .argument('[username]', 'the account')
    .action((username: string | undefined, options: ListOptions) =>
      withDatabase(async (db) => {
        const accountId = username === undefined ? null : (await theAccount(db, username)).id
        await printList<ListedSession>(options, {
          list: (part) => listSessions(db, accountId, part),
          keyOf: ({ key }) => key,
          describe: ({
            key,
            username: owner,
            network,
            lastNetwork,
            userAgent,
            createdAt,
            lastSeenAt,
            expiresAt,
          }) => ({
            session: key,
            username: owner,
            network,
            last_network: lastNetwork,
            user_agent: userAgent,
            created_at: createdAt,
            last_seen_at: lastSeenAt,
            expires_at: expiresAt,
          }),
          line: ({ key, username: owner, network, lastSeenAt }) =>
            `${key.slice(0, 16)}  ${owner}  ${network}  last seen ${lastSeenAt.toISOString()}`,
          none: 'Nobody is signed in.',
        })
      }),
    )
}

interface RevokeOptions extends JsonOptions {
  all?: boolean
}

function revokeCommand(): Command {
  return new Command('revoke')
    .description('End a session of an account, or all of them.')
    .argument('<username>', 'the account')
    .argument('[session]', 'as svc session list shows it')
    .option('--all', 'end all its sessions')
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc session revoke ann --all')
    .action(async (username: string, session: string | undefined, options: RevokeOptions) => {
      if ((session === undefined) !== (options.all === true)) {
        throw new Error('Pass the session, or use --all.')
      }
      if (session !== undefined && !/^[0-9a-f]{16,64}$/.test(session)) {
        throw new Error('A session has 16 to 64 hexadecimal digits: svc session list shows them.')
      }
      const revoked = await withDatabase(async (db) => {
        const { id } = await theAccount(db, username)
        return endSessions(db, operator, id, session === undefined ? 'all' : { key: session })
      })
      if (session !== undefined && revoked === 0) throw new Error(`${username} has no session ${session}.`)
      printResult(options, { username, revoked }, `${formatCount(revoked, 'session')} of ${username} ended.`)
    })
}
