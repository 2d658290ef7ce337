import { Command } from 'commander'
import { openStoreOfServer } from '../archives/store-owner.ts'
import { formatCount } from '../domain/formats.ts'
import { cleanLine } from '../domain/plain-text.ts'
import { type Imported, importPackages, type LeftOut } from '../packages/import.ts'
import { openReadmeRenderer } from '../packages/readmes/render-readme.ts'
import { UpstreamError } from '../upstreams/client/upstream-error.ts'
import { isPattern } from '../upstreams/documents/patterns.ts'
import { defaultCredentialHosts } from '../upstreams/tables/upstreams.ts'
import { type JsonOptions, jsonOption } from './options.ts'
import { printResult } from './run.ts'
import { withRepository } from './upstream.ts'

interface ImportOptions extends JsonOptions {
  into: string
  dryRun?: boolean
  mapVTags?: boolean
}

/** `svc import`: copies packages of another registry into a repository. */
export function importCommand(): Command {
  return new Command('import')
    .description(
      'Copy packages of another Composer registry, with their dates. A second run continues where it stopped.',
    )
    .argument('<url>', 'the URL of the Composer registry')
    .argument('[patterns...]', 'only these packages, such as acme/* or acme/lib:^2')
    .requiredOption('--into <path>', 'the repository, such as acme/php')
    .option('--dry-run', 'only show what would be imported')
    .option('--map-v-tags', 'publish v1.0.0 as 1.0.0')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExample:\n  svc import https://satis.example.com --into acme/php "acme/*" --map-v-tags',
    )
    .action(importAll)
}

async function importAll(url: string, patterns: string[], options: ImportOptions): Promise<void> {
  const wrong = patterns.find((pattern) => !isPattern(pattern))
  if (wrong !== undefined)
    throw new Error(`${wrong} is not a valid pattern: use vendor/*, vendor/package or vendor/*:^6.`)
  const isDryRun = options.dryRun ?? false
  const items: Imported[] = []
  let failure: unknown = null
  let leftOut: LeftOut = { unread: 0, missing: [] }
  await withRepository(options.into, async (db, { repositoryId }, client, config) => {
    const archives = await openStoreOfServer(db, config)
    const readmes = openReadmeRenderer()
    const tell = (imported: Imported) => {
      items.push(imported)
      if (!options.json) process.stdout.write(`${describe(imported)}\n`)
    }
    const mapsVTags = options.mapVTags ?? false
    const rights = {
      url,
      usesCredentials: true,
      credentialHosts: defaultCredentialHosts,
      reachesPrivateHosts: true,
    }
    const wish = { repositoryId, url, patterns, mapsVTags, isDryRun }
    try {
      leftOut = await importPackages(
        { config, db, client: client.for(rights, 'import'), archives, readmes, tell },
        wish,
      )
    } catch (error) {
      failure =
        error instanceof UpstreamError ? new Error(`The registry cannot be read: ${error.message}.`) : error
      // An import that has begun also prints its results when it fails.
      if (items.length === 0) throw failure
    } finally {
      await readmes.close()
    }
  })
  const count = (outcome: Imported['outcome']) => items.filter((item) => item.outcome === outcome).length
  const counts = {
    imported: count('imported'),
    staged: count('staged'),
    already_there: count('already there'),
    refused: count('refused'),
  }
  const text = `${isDryRun ? 'Would import' : 'Imported'} ${counts.imported}, ${counts.staged > 0 ? `${isDryRun ? 'stage' : 'staged'} ${counts.staged}, ` : ''}already there ${counts.already_there}, refused ${counts.refused}.`
  printResult(options, { ...counts, dry_run: isDryRun, items }, text)
  if (failure !== null) throw failure
  const { unread, missing } = leftOut
  if (unread > 0)
    throw new Error(
      `The metadata of ${formatCount(unread, 'package')} could not be read. Run the import again.`,
    )
  if (missing.length > 0) throw new Error(`The registry does not have ${missing.join(', ')}.`)
}

function describe({ name, version, outcome, reason }: Imported): string {
  const what = version === null ? name : `${name} ${version}`
  return cleanLine(`${what}: ${outcome}${reason === null ? '' : ` (${reason})`}`)
}
