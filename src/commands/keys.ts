import { Command } from 'commander'
import { describeKey, type ListedKey, listKeys, rotateKeys } from '../openid/keys.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { partOf, printList, printResult, withDatabase } from './run.ts'

/** `svc keys …` */
export function keysCommand(): Command {
  return new Command('keys')
    .description('The keys that sign ID tokens of people who sign in with svc.')
    .addCommand(listCommand())
    .addCommand(rotateCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the keys: those that sign, those that will, and retired ones.')
    .action((options: ListOptions) =>
      withDatabase((db) =>
        printList<ListedKey>(options, {
          list: async (part) => partOf(await listKeys(db), ({ kid }) => kid, part),
          keyOf: ({ kid }) => kid,
          describe: describeKey,
          line: ({ kid, alg, state, activatedAt, retiredAt, createdAt }) =>
            `${kid}  ${alg}  ${state.padEnd(7)}  since ${(retiredAt ?? activatedAt ?? createdAt).toISOString()}`,
          none: 'There are no keys yet: the first sign-in with svc makes them.',
        }),
      ),
    )
}

function rotateCommand(): Command {
  return new Command('rotate')
    .description(
      'Let the next keys sign, and retire the current ones. Tokens that these have signed stay valid until they expire.',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nA server rotates keys by itself after 90 days. It signs with the new ones within a minute.',
    )
    .action((options: JsonOptions) =>
      withDatabase(async (db, config) => {
        const rotated = await rotateKeys(db, config)
        const lines = rotated.map(({ alg, kid }) => `${kid} signs with ${alg} now.`)
        printResult(options, { rotated }, lines.join('\n'))
      }),
    )
}
