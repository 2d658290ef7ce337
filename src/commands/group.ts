import { Command, Option } from 'commander'
import { maxGraceDays } from '../domain/factor-grace.ts'
import { formatCount, formatTime } from '../domain/formats.ts'
import { operator } from '../domain/principal.ts'
import { countMembersWithoutFactor, requireFactorOfMembers } from '../groups/factor-requirement.ts'
import { addGroup, changeGroupName, deleteGroup } from '../groups/group-lifecycle.ts'
import { findGroupSettings, type ListedGroup, listGroups } from '../groups/groups.ts'
import { rerenderDocuments } from '../packages/documents/rerender.ts'
import { confirm, type ForceOptions, forceOption } from './confirm.ts'
import {
  type JsonOptions,
  jsonOption,
  type SearchOptions,
  searchOption,
  wholeNumber,
  withListOptions,
} from './options.ts'
import { printList, printResult, theAccount, theGroup, withDatabase } from './run.ts'

const reservedName = 'take the name also if it is reserved, because another group had it'

/** `svc group …` */
export function groupCommand(): Command {
  return new Command('group')
    .description('Groups of repositories.')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(setCommand())
    .addCommand(renameCommand())
    .addCommand(deleteCommand())
}

function createCommand(): Command {
  return new Command('create')
    .description('Create a group. Its owner becomes its first admin.')
    .argument('<group>', 'lower-case letters and digits, with single . _ or - between them')
    .requiredOption('--owner <username>', 'the account that owns it')
    .option('--force', reservedName)
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc group create acme --owner ann')
    .action(async (group: string, options: { owner: string; force?: boolean } & JsonOptions) => {
      const force = options.force ?? false
      await withDatabase(async (db, config) =>
        addGroup({ config, db }, operator, group, await theAccount(db, options.owner), { force }),
      )
      printResult(
        options,
        { group, owner: options.owner },
        `Group ${group} created; ${options.owner} is its admin.`,
      )
    })
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the groups by name.')
    .addOption(searchOption('only those with this text in their name'))
    .action(async (options: SearchOptions) =>
      withDatabase((db) =>
        printList<ListedGroup>(options, {
          list: (part) => listGroups(db, part, options.search),
          keyOf: ({ name }) => name,
          describe: ({ name, repositories, admins, requiresSecondFactor, createdAt }) => ({
            group: name,
            repositories,
            admins,
            requires_second_factor: requiresSecondFactor,
            created_at: createdAt,
          }),
          line: ({ name, repositories, admins }) =>
            `${name}  ${formatCount(repositories, 'repository', 'repositories')}, admins: ${admins.join(' ') || 'none'}`,
          none: 'There are no groups.',
        }),
      ),
    )
}

interface SetOptions extends JsonOptions {
  requireSecondFactor: 'on' | 'off'
  graceDays?: number
}

function setCommand(): Command {
  const rule = new Option(
    '--require-second-factor <on|off>',
    'members without a second factor have no role until they add one',
  )
  const grace = new Option(
    '--grace-days <days>',
    `for how long members without one keep their roles, 0 to ${maxGraceDays}; mails tell them (default: 0)`,
  )
  return new Command('set')
    .description('Change the settings of a group.')
    .argument('<group>', 'the name of the group')
    .addOption(rule.choices(['on', 'off']).makeOptionMandatory())
    .addOption(grace.argParser(wholeNumber('days', 0, maxGraceDays)))
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nFirst see who has none:\n  svc member list acme --without-second-factor\nExample:\n  svc group set acme --require-second-factor on --grace-days 14',
    )
    .action(async (name: string, { requireSecondFactor, graceDays, ...options }: SetOptions) => {
      const isRequired = requireSecondFactor === 'on'
      if (!isRequired && graceDays !== undefined)
        throw new Error('Use --grace-days only with --require-second-factor on.')
      const choice = isRequired ? { isRequired, graceDays } : { isRequired }
      const { settings, withoutFactor } = await withDatabase(async (db) => {
        const group = await theGroup(db, name)
        await requireFactorOfMembers(db, operator, group, choice)
        const { withoutFactor } = await countMembersWithoutFactor(db, group.id)
        return { settings: await findGroupSettings(db, group.id), withoutFactor }
      })
      const from = settings?.secondFactorFrom ?? null
      const rule = `${name} ${isRequired ? 'requires' : 'does not require'} a second factor of its members`
      const start = from === null ? '' : ` from ${formatTime(from)} on`
      const without = isRequired ? ` Members without one: ${withoutFactor}.` : ''
      printResult(
        options,
        {
          group: name,
          requires_second_factor: isRequired,
          second_factor_from: from,
          members_without_second_factor: withoutFactor,
        },
        `${rule}${start}.${without}`,
      )
    })
}

function renameCommand(): Command {
  return new Command('rename')
    .description(
      'Rename a group. The URLs of its repositories change; the old ones keep working. No other group can have its old name.',
    )
    .argument('<group>', 'the name of the group')
    .argument('<new name>', 'lower-case letters and digits, with single . _ or - between them')
    .option('--force', reservedName)
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc group rename acme acme-labs')
    .action(async (name: string, newName: string, options: { force?: boolean } & JsonOptions) => {
      const force = options.force ?? false
      await withDatabase(async (db, { baseUrl }) => {
        await changeGroupName(db, operator, await theGroup(db, name), newName, { force })
        await rerenderDocuments(db, baseUrl)
      })
      printResult(options, { group: newName }, `Group ${name} is now ${newName}.`)
    })
}

function deleteCommand(): Command {
  return new Command('delete')
    .description(
      'Permanently delete a group. No other group can have its name for 90 days, or never if it had packages.',
    )
    .argument('<group>', 'the name of the group')
    .option('--with-repositories', 'delete its repositories and all packages in them too')
    .addOption(forceOption())
    .addOption(jsonOption())
    .action(async (name: string, options: { withRepositories?: boolean } & ForceOptions) => {
      const { withRepositories = false } = options
      const { isDeleted, repositories } = await withDatabase(async (db) => {
        const group = await theGroup(db, name)
        const more = withRepositories ? ', its repositories and all packages in them' : ''
        const effect = `This deletes the group ${name}${more} for good, with memberships, invitations, deploy tokens, projects, policies and webhooks.`
        await confirm(effect, name, options)
        return deleteGroup(db, operator, group, { withRepositories })
      })
      if (!isDeleted) {
        const some = repositories.slice(0, 5).join(', ')
        throw new Error(
          `${name} has ${formatCount(repositories.length, 'repository', 'repositories')} (${some}${repositories.length > 5 ? ', …' : ''}), those that can be restored included. Use --with-repositories to delete them for good.`,
        )
      }
      printResult(options, { group: name, repositories }, `Group ${name} deleted.`)
    })
}
