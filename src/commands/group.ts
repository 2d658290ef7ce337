import { Command } from 'commander'
import { insertGroup } from '../repositories/groups.ts'
import { theAccount } from './named.ts'
import { jsonOption } from './options.ts'
import { answer, withDatabase } from './run.ts'

/** `svc group …` */
export function groupCommand(): Command {
  return new Command('group').description('Groups of repositories.').addCommand(createCommand())
}

function createCommand(): Command {
  return new Command('create')
    .description('Make a group. Its owner becomes its first admin.')
    .argument('<group>', 'lower-case letters and digits, with single . _ or - between them')
    .requiredOption('--owner <username>', 'the account that owns it')
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc group create acme --owner ann')
    .action(async (group: string, options: { owner: string; json?: boolean }) => {
      await withDatabase(async (db) => insertGroup(db, group, (await theAccount(db, options.owner)).id))
      answer(
        options,
        { group, owner: options.owner },
        `The group ${group} is there; ${options.owner} is its admin.`,
      )
    })
}
