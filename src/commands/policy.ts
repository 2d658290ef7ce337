import { Command, Option } from 'commander'
import { operator } from '../domain/principal.ts'
import {
  addPolicyRule,
  checkPolicyRule,
  describePolicyRule,
  findPolicyRule,
  listPolicyRules,
  type PolicyDraft,
  removePolicyRule,
  type StoredPolicyRule,
} from '../projects/policies.ts'
import { type PolicyKind, policyKinds } from '../projects/policy.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theGroup, withDatabase } from './run.ts'

/** `svc policy …` */
export function policyCommand(): Command {
  return new Command('policy')
    .description('Rules of a group about what its projects may install, for Composer 2.10 and later.')
    .addCommand(addCommand())
    .addCommand(listCommand())
    .addCommand(checkCommand())
    .addCommand(removeCommand())
}

interface DraftOptions extends JsonOptions {
  kind: PolicyKind
  reason: string
}

/** A command with a rule as its words. */
function draftCommand(name: string): Command {
  return new Command(name)
    .argument('<group>', 'the group, such as acme')
    .argument(
      '<patterns...>',
      'packages (acme/lib, "acme/*", "acme/lib:<2.0"), or licences (GPL-3.0-only, "GPL-*")',
    )
    .addOption(
      new Option(
        '--kind <kind>',
        'deny these packages, packages that need these licences, or everything but these packages',
      )
        .choices(policyKinds)
        .default('packages'),
    )
    .addOption(jsonOption())
}

function addCommand(): Command {
  return draftCommand('add')
    .description('Add a rule to a group.')
    .requiredOption('--reason <sentence>', 'what people see in Composer')
    .addHelpText(
      'after',
      '\nExample:\n  svc policy add acme "GPL-*" --kind licenses --reason "We ship closed source. Ask legal@example.com."',
    )
    .action(async (groupName: string, patterns: string[], options: DraftOptions) => {
      const rule = await withDatabase(async (db) => {
        const { id: groupId } = await theGroup(db, groupName)
        const id = await addPolicyRule(db, { groupId, by: operator }, draftOf(patterns, options))
        return findPolicyRule(db, groupId, id)
      })
      if (!rule) throw new Error('The rule was removed in the meantime.')
      printResult(options, describePolicyRule(rule), `Rule ${rule.id} added to ${groupName}.`)
    })
}

function draftOf(patterns: string[], { kind, reason }: Pick<DraftOptions, 'kind' | 'reason'>): PolicyDraft {
  return { kind, patterns, reason }
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the rules of a group, the oldest first.')
    .argument('<group>', 'the group, such as acme')
    .action((groupName: string, options: ListOptions) =>
      withDatabase(async (db) => {
        const group = await theGroup(db, groupName)
        await printList<StoredPolicyRule>(options, {
          list: (part) => listPolicyRules(db, group.id, part),
          keyOf: ({ id }) => id,
          describe: describePolicyRule,
          line: ({ id, kind, patterns, reason }) => `${id}  ${kind}  ${patterns.join(', ')}  ${reason}`,
          none: `${groupName} has no rules.`,
        })
      }),
    )
}

function checkCommand(): Command {
  return draftCommand('check')
    .description('Say what a rule would deny of the lock files of a group. Nothing is added.')
    .addHelpText('after', '\nExample:\n  svc policy check acme "symfony/*:<6.4"')
    .action(async (groupName: string, patterns: string[], options: DraftOptions) => {
      const found = await withDatabase(async (db) => {
        const { id } = await theGroup(db, groupName)
        return checkPolicyRule(db, id, draftOf(patterns, { kind: options.kind, reason: 'a dry run' }))
      })
      const lines = found.broken.map(
        ({ project, environment, package: name, version }) =>
          `${project}  ${environment}  ${name}  ${version}`,
      )
      const more = found.count - lines.length
      if (more > 0) lines.push(`and ${more} more`)
      printResult(options, found, lines.join('\n') || `It denies nothing that projects of ${groupName} have.`)
    })
}

function removeCommand(): Command {
  return new Command('remove')
    .description('Remove a rule of a group.')
    .argument('<group>', 'the group, such as acme')
    .argument('<id>', 'the id that list shows')
    .addOption(forceOption())
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc policy remove acme 7')
    .action(async (groupName: string, id: string, options: ForceOptions) => {
      await withDatabase(async (db) => {
        const { id: groupId } = await theGroup(db, groupName)
        const rule = await findPolicyRule(db, groupId, id)
        if (!rule) throw noRule(groupName, id)
        await confirmInTerminal(
          `This removes rule ${id}: Composer installs again what only this rule denies.`,
          id,
          options,
        )
        if (!(await removePolicyRule(db, { groupId, id, by: operator }))) throw noRule(groupName, id)
      })
      printResult(options, { id: Number(id) }, `Rule ${id} removed.`)
    })
}

function noRule(group: string, id: string): Error {
  return new Error(`${group} has no rule ${JSON.stringify(id)}.`)
}
