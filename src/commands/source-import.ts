import { createReadStream } from 'node:fs'
import { Command } from 'commander'
import { cleanLine } from '../domain/plain-text.ts'
import { operator } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { openOutbound } from '../outbound/outbound.ts'
import {
  maxListBytes,
  type RepositoryList,
  readRepositoryList,
  withoutSecrets,
} from '../sources/repository-list.ts'
import { readSourceUrl, type SourceUrl } from '../sources/source-url.ts'
import {
  type AddedSource,
  addSource,
  checkSource,
  listSources,
  maxSources,
  type NewSource,
} from '../sources/sources.ts'
import { explainFailure } from '../web/server/failure.ts'
import { type JsonOptions, jsonOption } from './options.ts'
import { printResult, theRepository, withDatabase } from './run.ts'
import { readSourceOptions, type SourceOptions, withSourceOptions } from './source-options.ts'

interface ImportOptions extends SourceOptions, JsonOptions {
  from: string
  host?: string
  dryRun?: boolean
}

/** What became of an entry of the list. */
interface Imported {
  what: string
  outcome: 'added' | 'already there' | 'skipped' | 'failed'
  reason?: string
  /** Only of a source that was added. In a dry run, only the keys of its SSH server. */
  source?: Partial<AddedSource>
}

/** `svc source import`: adds a source for each Git repository of a list. */
export function importSourcesCommand(): Command {
  const command = new Command('import')
    .description('Add a Git source for each repository of a list. A second run adds those that are new.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .requiredOption('--from <file>', 'a JSON list of URLs, or a satis.json')
    .option('--host <host>', 'only the repositories of this host, such as git.example.com')
    .option('--dry-run', 'only show what would be added')
  return withSourceOptions(command)
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
All sources get the same settings and secrets. A token goes only to one host: with more of them in the list, choose one
with --host. Exit code 1 means that a repository could not be added. The others were.

Example:
  svc source import acme/php --from satis.json --secret-file token.txt --dry-run`,
    )
    .action(importAll)
}

async function importAll(path: string, options: ImportOptions): Promise<void> {
  const isDryRun = options.dryRun ?? false
  const list = readRepositoryList(await readList(options.from))
  const wanted = await readSourceOptions(options)
  requireOneHost(list, options)
  const items: Imported[] = []
  const tell = (item: Imported) => {
    items.push(item)
    if (!options.json) process.stdout.write(`${describe(item)}\n`)
  }
  await withDatabase(async (db, config) => {
    const { id: repositoryId } = await theRepository(db, path)
    const sources = await listSources(db, repositoryId, { after: null, limit: maxSources })
    const known = new Set(sources.map(({ url }) => url))
    const outbound = openOutbound(config)
    const context = { config, db, outbound }
    const add = (source: NewSource) =>
      isDryRun
        ? checkSource(context, operator, source)
        : addSource(context, { repositoryId, by: operator }, source)
    try {
      for (const url of list.urls) {
        const read = readUrl(url)
        const what = withoutSecrets(url)
        if (options.host !== undefined && read && read.host !== options.host.toLowerCase())
          tell({ what, outcome: 'skipped', reason: `its host is ${read.host}` })
        else if (known.has(url)) tell({ what, outcome: 'already there' })
        else tell({ what, ...(await outcomeOf(() => add({ ...wanted, ...secretsFor(read, wanted), url }))) })
      }
    } finally {
      await outbound.close()
    }
  })
  for (const { what, reason } of list.skipped) tell({ what, outcome: 'skipped', reason })
  report(items, list, options)
}

/** Waits for an addition. One that is refused must not stop the others. */
async function outcomeOf(add: () => Promise<Partial<AddedSource>>): Promise<Omit<Imported, 'what'>> {
  try {
    return { outcome: 'added', source: await add() }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (error.errcode === errcode.alreadyExists) return { outcome: 'already there' }
    return { outcome: 'failed', reason: explainFailure(error) }
  }
}

/** Returns the parts of a URL. Null when it is invalid, which `addSource` explains. */
function readUrl(url: string): SourceUrl | null {
  try {
    return readSourceUrl(url, { allowsHttp: true })
  } catch {
    return null
  }
}

/** Returns the secrets that a URL can use: a token is for https, keys are for SSH. */
function secretsFor(read: SourceUrl | null, { secret, sshKey, hostKey }: Omit<NewSource, 'url'>) {
  if (read?.protocol !== 'ssh:') return { secret: secret ?? null, sshKey: null, hostKey: null }
  return { secret: null, sshKey: sshKey ?? null, hostKey: hostKey ?? null }
}

/** A list can have repositories of strangers. Their hosts must not get the token. */
function requireOneHost({ urls }: RepositoryList, { secretFile, host }: ImportOptions): void {
  if (secretFile === undefined || host !== undefined) return
  const hosts = new Set(
    urls.flatMap((url) => {
      const read = readUrl(url)
      return read && read.protocol !== 'ssh:' ? [read.host] : []
    }),
  )
  if (hosts.size > 1)
    throw new Error(
      `The token would be sent to ${[...hosts].sort().join(', ')}: choose one of them with --host, and run the command for each host.`,
    )
}

/** Reads a file of bounded size. It may be a pipe. */
async function readList(file: string): Promise<string> {
  const chunks: Buffer[] = []
  try {
    // One byte more tells that the file is too large.
    for await (const chunk of createReadStream(file, { end: maxListBytes })) chunks.push(chunk as Buffer)
  } catch (error) {
    throw new Error(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  }
  const bytes = Buffer.concat(chunks)
  if (bytes.length > maxListBytes) throw new Error(`${file} has more than ${maxListBytes} bytes.`)
  return bytes.toString()
}

function describe({ what, outcome, reason, source }: Imported): string {
  const { id, hookUrl, hookSecret } = source ?? {}
  const added = id === undefined ? '' : ` as source ${id}, hook ${hookUrl} with the secret ${hookSecret}`
  return cleanLine(`${what}: ${outcome}${added}${reason === undefined ? '' : ` (${reason})`}`)
}

function report(items: readonly Imported[], { notes }: RepositoryList, options: ImportOptions): void {
  const isDryRun = options.dryRun ?? false
  const count = (outcome: Imported['outcome']) => items.filter((item) => item.outcome === outcome).length
  const counts = {
    added: count('added'),
    already_there: count('already there'),
    skipped: count('skipped'),
    failed: count('failed'),
  }
  const waiting = items.flatMap(({ source }) => (source?.isConfirmed === false ? [source] : []))
  const lines = [
    ...[...new Set(waiting.flatMap((source) => howToConfirm(source)))],
    ...notes,
    `${isDryRun ? 'Would add' : 'Added'} ${counts.added}, already there ${counts.already_there}, skipped ${counts.skipped}, failed ${counts.failed}.`,
  ]
  const json = { ...counts, dry_run: isDryRun, notes, items: items.map(describeForJson) }
  printResult(options, json, lines.join('\n'))
  if (counts.failed > 0)
    throw new Error(
      `${counts.failed} of ${items.length} entries could not be added. Correct them, and run the command again.`,
    )
}

/** Returns what to do with the keys of an SSH server, a line for each. A source of a dry run has no id. */
function howToConfirm({ id, hostKeys = [] }: Partial<AddedSource>): string[] {
  return hostKeys.map((key) =>
    id === undefined
      ? `Key of an SSH server: ${key}. Compare it, and give it with --host-key.`
      : `If the key of the SSH server is ${key}, run: svc source confirm ${id} ${key}`,
  )
}

function describeForJson({ what, outcome, reason, source }: Imported) {
  return {
    entry: what,
    outcome,
    reason: reason ?? null,
    id: source?.id === undefined ? null : Number(source.id),
    hook_url: source?.hookUrl ?? null,
    hook_secret: source?.hookSecret ?? null,
    host_keys: source?.hostKeys ?? [],
    host_keys_confirmed: source?.isConfirmed ?? null,
  }
}
