import { Command, Option } from 'commander'
import type { Queryable } from '../database/database.ts'
import { type ReleaseRule, releaseRules, type Visibility, visibilities } from '../domain/permissions.ts'
import { operator } from '../domain/principal.ts'
import {
  type DeletedRepository,
  listDeletedRepositories,
  restorableDays,
} from '../groups/deleted-repositories.ts'
import {
  addRepository,
  changeRepositoryName,
  deleteRepository,
  restoreRepository,
  setRepository,
} from '../groups/group-lifecycle.ts'
import { type CountedRepository, listRepositories, registryUrl } from '../groups/repositories.ts'
import { countPublished, describePublication } from '../packages/tables/published-content.ts'
import { confirm, confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type SearchOptions, searchOption, withListOptions } from './options.ts'
import { printList, printResult, theGroup, theRepository, withDatabase } from './run.ts'

interface CreateOptions extends JsonOptions {
  visibility: Visibility
  description: string
}

/** `svc repository …` */
export function repositoryCommand(): Command {
  return new Command('repository')
    .description('Repositories, each with its Composer registry.')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(setCommand())
    .addCommand(renameCommand())
    .addCommand(deleteCommand())
    .addCommand(restoreCommand())
}

function createCommand(): Command {
  return new Command('create')
    .description('Create a repository in a group.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .addOption(
      new Option('--visibility <visibility>', 'who may pull').choices(visibilities).default('private'),
    )
    .option('--description <text>', 'at most 350 characters', '')
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc repository create acme/php --description "Our PHP packages"')
    .action(createRepository)
}

async function createRepository(path: string, options: CreateOptions): Promise<void> {
  const { visibility, description } = options
  const [groupName, name] = splitPath(path)
  const url = await withDatabase(async (db, config) => {
    const group = await theGroup(db, groupName)
    await addRepository({ config, db }, operator, { groupId: group.id, name, visibility, description })
    return registryUrl(config.baseUrl, path)
  })
  const text = `Repository ${path} (${visibility}) created. Its registry: ${url}`
  printResult(options, { path, visibility, registry_url: url }, text)
}

function splitPath(path: string): [groupName: string, name: string] {
  const [groupName = '', name = '', ...rest] = path.split('/')
  if (name === '' || rest.length > 0)
    throw new Error('Write the repository as <group>/<name>, such as acme/php.')
  return [groupName, name]
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the repositories by path, all or those of one group.')
    .argument('[group]', 'such as acme')
    .addOption(searchOption('only those with this text in their path or description'))
    .option('--deleted', 'list those that were deleted and can be restored')
    .action(async (groupName: string | undefined, options: SearchOptions & { deleted?: boolean }) =>
      withDatabase(async (db, { baseUrl }) => {
        const groupId = groupName === undefined ? null : (await theGroup(db, groupName)).id
        if (options.deleted) return printDeleted(db, groupId, options)
        await printList<CountedRepository>(options, {
          list: (part) => listRepositories(db, { groupId, search: options.search }, part),
          keyOf: ({ path }) => path,
          describe: ({ path, visibility, description, packages, members, createdAt }) => ({
            path,
            visibility,
            description,
            packages,
            members,
            registry_url: registryUrl(baseUrl, path),
            created_at: createdAt,
          }),
          line: ({ path, visibility, description }) =>
            `${visibility.padEnd(7)}  ${path}  ${description}`.trim(),
          none: 'There are no repositories.',
        })
      }),
    )
}

function printDeleted(db: Queryable, groupId: string | null, options: SearchOptions): Promise<void> {
  if (options.search !== undefined) throw new Error('Use either --search or --deleted.')
  return printList<DeletedRepository>(options, {
    list: (part) => listDeletedRepositories(db, groupId, part),
    keyOf: ({ path }) => path,
    describe: ({ path, deletedAt, restorableUntil }) => ({
      path,
      deleted_at: deletedAt,
      restorable_until: restorableUntil,
    }),
    line: ({ path, restorableUntil }) => `${path}  until ${restorableUntil.toISOString()}`,
    none: 'There are no deleted repositories.',
  })
}

interface SetOptions extends ForceOptions {
  visibility?: Visibility
  description?: string
  release?: ReleaseRule
  twoPeople?: 'yes' | 'no'
}

function setCommand(): Command {
  return new Command('set')
    .description('Change the settings of a repository.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .addOption(new Option('--visibility <visibility>', 'who may pull').choices(visibilities))
    .option('--description <text>', 'at most 350 characters')
    .addOption(
      new Option('--release <rule>', 'reviewed: uploads are staged until somebody releases them').choices(
        releaseRules,
      ),
    )
    .addOption(
      new Option('--two-people <yes|no>', 'whether nobody releases what they staged themselves').choices([
        'yes',
        'no',
      ]),
    )
    .addOption(forceOption())
    .addOption(jsonOption())
    .action(async (path: string, options: SetOptions) => {
      const { visibility, description, release } = options
      const twoPeople = options.twoPeople && options.twoPeople === 'yes'
      const changes = { visibility, description, release, twoPeople }
      if (Object.values(changes).every((value) => value === undefined)) {
        throw new Error('Nothing to change: use --visibility, --description, --release or --two-people.')
      }
      const changed = await withDatabase(async (db) => {
        const repository = await theRepository(db, path)
        if (visibility === 'public' && repository.visibility !== 'public') {
          const effect = describePublication(await countPublished(db, repository.id))
          await confirmInTerminal(`This makes ${path} public. ${effect}`, path, options)
        }
        return setRepository(db, operator, repository.id, changes)
      })
      if (!changed) throw new Error(`There is no repository ${JSON.stringify(path)}.`)
      const json = {
        path,
        visibility: changed.visibility,
        description: changed.description,
        release: changed.release,
        two_people: changed.twoPeople,
      }
      printResult(
        options,
        json,
        `Repository ${path} is ${changed.visibility}: ${changed.description || 'no description'}${changed.release === 'reviewed' ? '. Its releases are reviewed.' : ''}`,
      )
    })
}

function renameCommand(): Command {
  return new Command('rename')
    .description('Rename a repository. Its old URLs keep working, and no other repository gets the old name.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .argument('<new name>', 'lower-case letters and digits, with single . _ or - between them')
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc repository rename acme/php packages')
    .action(async (path: string, newName: string, options: JsonOptions) => {
      await withDatabase(async (db) =>
        changeRepositoryName(db, operator, (await theRepository(db, path)).id, newName),
      )
      const newPath = `${path.split('/')[0]}/${newName}`
      printResult(
        options,
        { path: newPath },
        `Repository ${path} is now ${newPath}. Its old URLs keep working.`,
      )
    })
}

function deleteCommand(): Command {
  return new Command('delete')
    .description(
      `Delete a repository and all packages in it. svc repository restore brings them back for ${restorableDays} days.`,
    )
    .argument('<path>', '<group>/<name>, such as acme/php')
    .addOption(forceOption())
    .addOption(jsonOption())
    .action(async (path: string, options: ForceOptions) => {
      await withDatabase(async (db) => {
        const repository = await theRepository(db, path)
        await confirm(`This deletes ${path} and all packages in it.`, path, options)
        await deleteRepository(db, operator, repository)
      })
      const text = `Repository ${path} deleted. To undo it in the next ${restorableDays} days: svc repository restore ${path}`
      printResult(options, { path }, text)
    })
}

function restoreCommand(): Command {
  return new Command('restore')
    .description(`Restore a repository that was deleted less than ${restorableDays} days ago.`)
    .argument('<path>', '<group>/<name>, as svc repository list --deleted shows it')
    .addOption(jsonOption())
    .action(async (path: string, options: JsonOptions) => {
      const [groupName, name] = splitPath(path)
      await withDatabase(async (db) => restoreRepository(db, operator, await theGroup(db, groupName), name))
      printResult(options, { path }, `Repository ${path} restored.`)
    })
}
