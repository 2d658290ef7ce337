import { Command } from 'commander'
import { operator } from '../domain/principal.ts'
import { openOutbound } from '../outbound/outbound.ts'
import { keyOfRef, listRefs, type SourceRef } from '../sources/source-refs.ts'
import {
  addSource,
  confirmSource,
  describeSource,
  findSource,
  fingerprintsOf,
  listSources,
  queueSource,
  removeSource,
  replaceHookSecret,
  type Source,
} from '../sources/sources.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theRepository, withDatabase } from './run.ts'
import { importSourcesCommand } from './source-import.ts'
import { readSecretFile, readSourceOptions, type SourceOptions, withSourceOptions } from './source-options.ts'

interface AddOptions extends SourceOptions, JsonOptions {
  path?: string
}

/** `svc source …` */
export function sourceCommand(): Command {
  return new Command('source')
    .description('Git repositories whose tags and branches become versions of a repository.')
    .addCommand(addCommand())
    .addCommand(importSourcesCommand())
    .addCommand(confirmCommand())
    .addCommand(listCommand())
    .addCommand(refsCommand())
    .addCommand(syncCommand())
    .addCommand(hookSecretCommand())
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
  const { id, hookUrl, hookSecret, hostKeys, isConfirmed } = added
  const json = {
    id: Number(id),
    hook_url: hookUrl,
    hook_secret: hookSecret,
    host_keys: hostKeys,
    host_keys_confirmed: isConfirmed,
  }
  const lines = [
    isConfirmed
      ? `Source ${id} added to ${path}. The server reads it now.`
      : `Source ${id} added to ${path}. It is not read before the key of the SSH server is confirmed.`,
    `Hook of the Git server: ${hookUrl} with the secret ${hookSecret}`,
    ...(isConfirmed
      ? []
      : hostKeys.map(
          (key) => `If the key of the SSH server is ${key}, run: svc source confirm ${id} ${key}`,
        )),
  ]
  printResult(options, json, lines.join('\n'))
}

function confirmCommand(): Command {
  return new Command('confirm')
    .description('Confirm the key that the SSH server of a Git source has shown. The source is read then.')
    .argument('<id>', 'the id that list shows')
    .argument('<fingerprint>', 'the fingerprint that the owner of the SSH server tells, SHA256:…')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExample:\n  svc source confirm 7 SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM',
    )
    .action(async (id: string, hostKey: string, options: JsonOptions) => {
      requireId(id)
      const isFound = await withDatabase((db) =>
        confirmSource(db, operator, { id, repositoryId: null, hostKey }),
      )
      if (!isFound) throw noSource(id)
      printResult(
        options,
        { id: Number(id) },
        `The key of source ${id} is confirmed: the server reads it soon.`,
      )
    })
}

function hookSecretCommand(): Command {
  return new Command('hook-secret')
    .description('Make a new secret for the hooks of a Git source. The former one ends at once.')
    .argument('<id>', 'the id that list shows')
    .option(
      '--secret-file <file>',
      'file with a secret that the Git server has made, such as a signing token',
    )
    .addOption(jsonOption())
    .action(async (id: string, options: JsonOptions & { secretFile?: string }) => {
      requireId(id)
      const { secretFile } = options
      const secret = secretFile === undefined ? null : await readSecretFile(secretFile)
      const made = await withDatabase((db, config) =>
        replaceHookSecret({ config, db }, operator, { id, repositoryId: null, secret }),
      )
      if (made === null) throw noSource(id)
      printResult(options, { id: Number(id), hook_secret: made }, `The secret of the hooks is now ${made}`)
    })
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
            `${source.id}  ${source.url}${source.path === '' ? '' : `  ${source.path}`}  ${formatCounts(source)}  ${formatState(source)}`,
          none: `${path} has no sources.`,
        })
      }),
    )
}

function formatState(source: Source): string {
  if (!source.isConfirmed)
    return `waits for svc source confirm ${source.id} ${fingerprintsOf(source)[0] ?? ''}`
  if (source.failure !== null) return `failing: ${source.failure}`
  return `looked ${source.lookedAt?.toISOString() ?? 'never'}`
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
    .action(async (id: string, options: ForceOptions) => {
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
