import { Argument, Command } from 'commander'
import type { Queryable } from '../database/database.ts'
import { type Role, roles } from '../domain/permissions.ts'
import { operator } from '../domain/principal.ts'
import { listMembersWithoutFactor, type MemberWithoutFactor } from '../groups/factor-requirement.ts'
import { type GroupMember, listGroupMembers, listMembers, type Member } from '../groups/members.ts'
import { changeMember, type MemberChange } from '../groups/membership.ts'
import { inviteMemberCommand } from './invitation.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theAccount, theGroup, theRepository, withDatabase } from './run.ts'

interface SetOptions extends JsonOptions {
  force?: boolean
}

/** `svc member …` */
export function memberCommand(): Command {
  return new Command('member')
    .description('Who may do what in groups and repositories.')
    .addCommand(listCommand())
    .addCommand(setCommand())
    .addCommand(inviteMemberCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the members of a group or of a repository, by username.')
    .argument('<path>', 'a whole group (acme), or one repository (acme/php) with the members of its group')
    .option('--without-second-factor', 'only the members of a group and its repositories who have none')
    .action(async (path: string, options: ListOptions & { withoutSecondFactor?: boolean }) =>
      withDatabase(async (db) => {
        const none = `${path} has no members.`
        const place = await findPlace(db, path)
        if (options.withoutSecondFactor) return printWithoutFactor(db, path, place, options)
        if ('groupId' in place) {
          return printList<GroupMember>(options, {
            list: (part) => listGroupMembers(db, place.groupId, part),
            keyOf: ({ username }) => username,
            describe: ({ username, displayName, role }) => ({ username, name: displayName, role }),
            line: ({ username, role }) => `${role.padEnd(9)}  ${username}`,
            none,
          })
        }
        return printList<Member>(options, {
          list: (part) => listMembers(db, place.repositoryId, part),
          keyOf: ({ username }) => username,
          describe: ({ username, displayName, role, groupRole, repositoryRole }) => ({
            username,
            name: displayName,
            role,
            group_role: groupRole,
            repository_role: repositoryRole,
          }),
          line: ({ username, role }) => `${role.padEnd(9)}  ${username}`,
          none,
        })
      }),
    )
}

function printWithoutFactor(
  db: Queryable,
  path: string,
  place: MemberChange['place'],
  options: ListOptions,
): Promise<void> {
  if (!('groupId' in place)) throw new Error('Use --without-second-factor with a group, such as acme.')
  return printList<MemberWithoutFactor>(options, {
    list: (part) => listMembersWithoutFactor(db, place.groupId, part),
    keyOf: ({ username }) => username,
    describe: ({ username, displayName, groupRole }) => ({ username, name: displayName, role: groupRole }),
    line: ({ username, groupRole }) => `${(groupRole ?? 'in repositories').padEnd(15)}  ${username}`,
    none: `All members of ${path} and of its repositories have a second factor.`,
  })
}

function setCommand(): Command {
  return new Command('set')
    .description(
      'Give an account a role: a guest pulls, a developer also pushes, an admin also deletes and manages.',
    )
    .argument('<path>', 'a whole group (acme), or one repository (acme/php)')
    .argument('<username>', 'the account')
    .addArgument(new Argument('<role>', 'none removes the role').choices([...roles, 'none']))
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
    return changeMember(db, operator, { place, account, role, force: options.force ?? false })
  })
  if (outcome === 'last-admin') {
    throw new Error(
      `${username} is the last admin of ${path}. Make another account admin first, or use --force.`,
    )
  }
  const text = role === 'none' ? `${username} has no role in ${path}.` : `${username} is ${role} of ${path}.`
  printResult(options, { path, username, role }, text)
}

async function findPlace(db: Queryable, path: string): Promise<MemberChange['place']> {
  if (path.includes('/')) return { repositoryId: (await theRepository(db, path)).id }
  return { groupId: (await theGroup(db, path)).id }
}
