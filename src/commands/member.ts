import { Argument, Command } from 'commander'
import type { Queryable } from '../database/database.ts'
import { type Role, roles } from '../domain/permissions.ts'
import {
  removeGroupMember,
  removeRepositoryMember,
  setGroupMember,
  setRepositoryMember,
} from '../repositories/members.ts'
import { theAccount, theGroup, theRepository } from './named.ts'
import { jsonOption } from './options.ts'
import { answer, withDatabase } from './run.ts'

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
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExamples:\n  svc member set acme ann admin\n  svc member set acme/php bob developer',
    )
    .action(async (path: string, username: string, role: Role | 'none', options: { json?: boolean }) => {
      await withDatabase(async (db) => {
        const { id } = await theAccount(db, username)
        if (path.includes('/')) return setInRepository(db, path, id, role)
        return setInGroup(db, path, id, role)
      })
      const text =
        role === 'none' ? `${username} has no role in ${path}.` : `${username} is ${role} of ${path}.`
      answer(options, { path, username, role }, text)
    })
}

async function setInGroup(db: Queryable, name: string, accountId: string, role: Role | 'none') {
  const { id } = await theGroup(db, name)
  if (role === 'none') await removeGroupMember(db, id, accountId)
  else await setGroupMember(db, id, accountId, role)
}

async function setInRepository(db: Queryable, path: string, accountId: string, role: Role | 'none') {
  const { id } = await theRepository(db, path)
  if (role === 'none') await removeRepositoryMember(db, id, accountId)
  else await setRepositoryMember(db, id, accountId, role)
}
