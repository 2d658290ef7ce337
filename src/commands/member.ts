import { Argument, Command } from 'commander'
import type { Queryable } from '../database/database.ts'
import { type Role, roles } from '../domain/permissions.ts'
import { changeMember, type MemberChange } from '../registry/membership.ts'
import { commandLine } from '../registry/tables/events.ts'
import { theAccount, theGroup, theRepository } from './named.ts'
import { jsonOption } from './options.ts'
import { answer, withDatabase } from './run.ts'

interface SetOptions {
  force?: boolean
  json?: boolean
}

/** `svc member …` */
export function memberCommand(): Command {
  return new Command('member')
    .description('Who may do what in groups and repositories.')
    .addCommand(setCommand())
}

function setCommand(): Command {
  return new Command('set')
    .description(
      'Give an account a role: a guest pulls, a developer also pushes, an admin also deletes and manages.',
    )
    .argument('<path>', 'a whole group (acme), or one repository (acme/php)')
    .argument('<username>', 'the account')
    .addArgument(new Argument('<role>', 'none takes the role away').choices([...roles, 'none']))
    .option('--force', 'allow a group to lose its last admin')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExamples:\n  svc member set acme ann admin\n  svc member set acme/php bob developer',
    )
    .action(setMember)
}

async function setMember(
  path: string,
  username: string,
  role: Role | 'none',
  options: SetOptions,
): Promise<void> {
  const outcome = await withDatabase(async (db) => {
    const account = await theAccount(db, username)
    const place = await findPlace(db, path)
    return changeMember(db, commandLine, { place, account, role, force: options.force ?? false })
  })
  if (outcome === 'last-admin') {
    throw new Error(
      `${username} is the last admin of ${path}. Make another account admin first, or use --force.`,
    )
  }
  const text = role === 'none' ? `${username} has no role in ${path}.` : `${username} is ${role} of ${path}.`
  answer(options, { path, username, role }, text)
}

async function findPlace(db: Queryable, path: string): Promise<MemberChange['place']> {
  if (path.includes('/')) return { repositoryId: (await theRepository(db, path)).id }
  return { groupId: (await theGroup(db, path)).id }
}
