import { Command } from 'commander'
import { operator } from '../domain/principal.ts'
import { openOutbound } from '../outbound/outbound.ts'
import { keyOfRef, listRefs, type SourceRef } from '../sources/source-refs.ts'
import {
  addSource,
  describeSource,
  findSource,
  listSources,
  queueSource,
  removeSource,
  type Source,
} from '../sources/sources.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theRepository, withDatabase } from './run.ts'
import { importSourcesCommand } from './source-import.ts'
import { readSourceOptions, type SourceOptions, withSourceOptions } from './source-options.ts'

interface AddOptions extends SourceOptions, JsonOptions {
  path?: string
}

/** `svc source …` */
export function sourceCommand(): Command {
  return new Command('source')
    .description('Git repositories whose tags and branches become versions of a repository.')
    .addCommand(addCommand())
    .addCommand(importSourcesCommand())
    .addCommand(listCommand())
    .addCommand(refsCommand())
    .addCommand(syncCommand())
    .addCommand(removeCommand())
}

function addCommand(): Command {
  const command = new Command('add')
    .description('Add a Git source to a repository. The server reads it at once, and then on its schedule.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .argument('<url>', 'URL of the Git repository, with https:// or ssh://, without credentials')
    .option('--path <folder>', 'folder of the package (default: the root)')
  return withSourceOptions(command)
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExample:\n  svc source add acme/php https://git.example.com/acme/lib.git --secret-file token.txt --branches main',
    )
    .action(addToRepository)
}

async function addToRepository(path: string, url: string, options: AddOptions): Promise<void> {
  const wanted = await readSourceOptions(options)
  const added = await withDatabase(async (db, config) => {
    const { id: repositoryId } = await theRepository(db, path)
    const outbound = openOutbound(config)
    try {
      return await addSource(
        { config, db, outbound },
        { repositoryId, by: operator },
        { ...wanted, url, path: options.path ?? null },
      )
    } finally {
      await outbound.close()
    }
  })
  const { id, hookUrl, hookSecret, hostKeys } = added
  const json = { id: Number(id), hook_url: hookUrl, hook_secret: hookSecret, host_keys: hostKeys }
  const lines = [
    `Source ${id} added to ${path}. The server reads it now.`,
    `Hook of the Git server: ${hookUrl} with the secret ${hookSecret}`,
    ...hostKeys.map((key) => `Key of the SSH server: ${key}. If it is another one, remove the source.`),
  ]
  printResult(options, json, lines.join('\n'))
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the Git sources of a repository, the oldest first.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .action((path: string, options: ListOptions) =>
      withDatabase(async (db, config) => {
        const { id: repositoryId } = await theRepository(db, path)
        await printList<Source>(options, {
          list: (part) => listSources(db, repositoryId, part),
          keyOf: ({ id }) => id,
          describe: (source) => describeSource(source, config),
          line: (source) =>
            `${source.id}  ${source.url}${source.path === '' ? '' : `  ${source.path}`}  ${formatCounts(source)}  ${source.failure === null ? `looked ${source.lookedAt?.toISOString() ?? 'never'}` : `failing: ${source.failure}`}`,
          none: `${path} has no sources.`,
        })
      }),
    )
}

function formatCounts({ counts }: Source): string {
  const parts = Object.entries(counts).map(([state, count]) => `${state} ${count}`)
  return parts.join(', ') || 'nothing yet'
}

function refsCommand(): Command {
  return withListOptions(new Command('refs'))
    .description('List the tags and branches of a Git source, and what became of each.')
    .argument('<id>', 'the id that list shows')
    .action((id: string, options: ListOptions) =>
      withDatabase(async (db) => {
        const source = await findSource(db, id)
        if (!source) throw noSource(id)
        await printList<SourceRef>(options, {
          list: (part) => listRefs(db, source.id, part),
          keyOf: keyOfRef,
          describe: ({ kind, name, state, reason, warnings, commit, packageName, version, changedAt }) => ({
            kind,
            name,
            state,
            reason,
            warnings,
            commit,
            package: packageName,
            version,
            changed_at: changedAt,
          }),
          line: ({ kind, name, state, reason, packageName, version, warnings }) =>
            [`${kind} ${name}`, state, packageName, version, reason, ...warnings]
              .filter((part) => part)
              .join('  '),
          none: `Source ${id} has no tags and branches yet.`,
        })
      }),
    )
}

function syncCommand(): Command {
  return new Command('sync')
    .description('Let the server read a Git source now. What was refused is judged again.')
    .argument('<id>', 'the id that list shows')
    .addOption(jsonOption())
    .action(async (id: string, options: JsonOptions) => {
      requireId(id)
      if (!(await withDatabase((db) => queueSource(db, { id, repositoryId: null })))) throw noSource(id)
      printResult(options, { id: Number(id) }, `Source ${id} is queued: the server reads it soon.`)
    })
}

function removeCommand(): Command {
  return new Command('remove')
    .description('Remove a Git source. Its versions stay.')
    .argument('<id>', 'the id that list shows')
    .addOption(forceOption())
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc source remove 7')
    .action(async (id: string, options: ForceOptions & JsonOptions) => {
      requireId(id)
      const isRemoved = await withDatabase(async (db) => {
        await confirmInTerminal(`This removes the source ${id}. Its versions stay.`, id, options)
        return removeSource(db, operator, { id, repositoryId: null })
      })
      if (!isRemoved) throw noSource(id)
      printResult(options, { id: Number(id) }, `Source ${id} removed.`)
    })
}

function requireId(id: string): void {
  if (!/^[1-9]\d{0,17}$/.test(id)) throw new Error(`${JSON.stringify(id)} is no id of a source.`)
}

function noSource(id: string): Error {
  return new Error(`There is no source ${JSON.stringify(id)}.`)
}
