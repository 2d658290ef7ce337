import { Command, InvalidArgumentError, Option } from 'commander'
import { operator } from '../domain/principal.ts'
import { type PublisherRightName, publisherRightNames } from '../domain/publisher.ts'
import { type ClaimCondition, type PublisherProvider, publisherProviders } from '../publishers/providers.ts'
import {
  addPublisher,
  listPublishers,
  removePublisher,
  type TrustedPublisher,
} from '../publishers/trusted-publishers.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theRepository, withDatabase } from './run.ts'

interface AddOptions extends JsonOptions {
  provider: PublisherProvider
  issuer?: string
  project?: string
  workflow?: string
  environment?: string
  workflowProject?: string
  claim?: ClaimCondition[]
  package?: string[]
  right: PublisherRightName
}

/** `svc trusted-publisher …` */
export function trustedPublisherCommand(): Command {
  return new Command('trusted-publisher')
    .description('CI jobs that publish to a repository, or read it, without a stored secret.')
    .addCommand(addCommand())
    .addCommand(listCommand())
    .addCommand(removeCommand())
}

function addCommand(): Command {
  return new Command('add')
    .description('Add a trusted publisher to a repository.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .addOption(
      new Option('--provider <provider>', 'the CI; claims: any other issuer')
        .choices(publisherProviders)
        .makeOptionMandatory(),
    )
    .option(
      '--issuer <url>',
      'the issuer of its identity tokens, exactly as in iss (default: that of the provider)',
    )
    .option('--project <project>', 'owner/name, or group/sub/name of GitLab')
    .option('--workflow <file>', 'file name of the workflow, such as release.yml')
    .option('--environment <name>', 'only jobs of this environment')
    .option('--workflow-project <project>', 'the project of a reusable workflow that the job calls')
    .addOption(
      new Option(
        '--claim <conditions...>',
        'more conditions such as ref=refs/tags/*; with the provider claims, one without *, such as repository=acme/lib, names the project',
      ).argParser(readClaim),
    )
    .option('--package <patterns...>', 'only these packages, such as acme/* (default: all)')
    .addOption(
      new Option('--right <right>', 'publish uploads; stage uploads what people release; read installs')
        .choices(publisherRightNames)
        .default('publish'),
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExample:\n  svc trusted-publisher add acme/php --provider github --project acme/lib --workflow release.yml --package acme/lib',
    )
    .action(addToRepository)
}

function readClaim(text: string, before: ClaimCondition[] | undefined): ClaimCondition[] {
  const at = text.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('It must be name=value, such as ref=refs/tags/*.')
  return [...(before ?? []), { name: text.slice(0, at), value: text.slice(at + 1) }]
}

async function addToRepository(path: string, options: AddOptions): Promise<void> {
  const { claim: claims = [], package: packages, provider, right } = options
  const id = await withDatabase(async (db, config) => {
    const { id: repositoryId } = await theRepository(db, path)
    return addPublisher(
      { config, db },
      { repositoryId, by: operator },
      {
        provider,
        right,
        issuer: options.issuer ?? null,
        project: options.project ?? null,
        workflow: options.workflow ?? null,
        environment: options.environment ?? null,
        workflowProject: options.workflowProject ?? null,
        claims,
        ...(packages && { packages }),
      },
    )
  })
  const line = `Trusted publisher ${id} added to ${path}. Its jobs get a token for 15 minutes, with the right: ${right}.`
  printResult(options, { id: Number(id) }, line)
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the trusted publishers of a repository, the oldest first.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .action((path: string, options: ListOptions) =>
      withDatabase(async (db) => {
        const { id: repositoryId } = await theRepository(db, path)
        await printList<TrustedPublisher>(options, {
          list: (part) => listPublishers(db, repositoryId, part),
          keyOf: ({ id }) => id,
          describe: describePublisher,
          line: ({ id, provider, project, issuer, workflow, right, packages, lastExchange }) =>
            `${id}  ${provider}  ${project ?? issuer}  ${workflow ?? '-'}  ${right}  ${packages.join(' ')}  ${lastExchange ? `${lastExchange.outcome} ${lastExchange.at}` : 'never used'}`,
          none: `${path} has no trusted publishers.`,
        })
      }),
    )
}

function describePublisher(publisher: TrustedPublisher): Record<string, unknown> {
  return {
    id: Number(publisher.id),
    provider: publisher.provider,
    issuer: publisher.issuer,
    project: publisher.project,
    workflow: publisher.workflow,
    environment: publisher.environment,
    workflow_project: publisher.workflowProject,
    claims: Object.fromEntries(publisher.claims.map(({ name, value }) => [name, value])),
    packages: publisher.packages,
    right: publisher.right,
    pins: publisher.pins,
    made_by: publisher.madeBy,
    created_at: publisher.createdAt,
    reserved_packages: publisher.reservedNames,
    reserved_until: publisher.reservedUntil,
    last_exchange: publisher.lastExchange,
  }
}

function removeCommand(): Command {
  return new Command('remove')
    .description('Remove a trusted publisher, and end its tokens.')
    .argument('<id>', 'the id that list shows')
    .addOption(forceOption())
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc trusted-publisher remove 7')
    .action(async (id: string, options: ForceOptions) => {
      if (!/^[1-9]\d{0,17}$/.test(id))
        throw new Error(`${JSON.stringify(id)} is no id of a trusted publisher.`)
      const isRemoved = await withDatabase(async (db) => {
        await confirmInTerminal(`This removes the trusted publisher ${id}, and ends its tokens.`, id, options)
        return removePublisher(db, operator, { id, repositoryId: null })
      })
      if (!isRemoved) throw new Error(`There is no trusted publisher ${id}.`)
      printResult(options, { id: Number(id) }, `Trusted publisher ${id} removed.`)
    })
}
