import { Command, Option } from 'commander'
import type pg from 'pg'
import { operator } from '../domain/principal.ts'
import { describeRun } from '../domain/publisher.ts'
import { findRepository } from '../groups/repositories.ts'
import { describeStage } from '../packages/stages/describe-stage.ts'
import { rejectStage, releaseStage } from '../packages/stages/release.ts'
import {
  findStage,
  type ListedStage,
  listStages,
  type Stage,
  type StageState,
  stageStates,
} from '../packages/tables/staged-versions.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theRepository, withDatabase } from './run.ts'

/** `svc stage …` */
export function stageCommand(): Command {
  return new Command('stage')
    .description('Staged versions, which are published when somebody releases them.')
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(releaseCommand())
    .addCommand(rejectCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the staged versions of a repository, the latest first.')
    .argument('<path>', 'the repository, such as acme/php')
    .addOption(new Option('--status <status>', 'only those in this state').choices(stageStates))
    .action((path: string, options: ListOptions & { status?: StageState }) =>
      withDatabase(async (db, { baseUrl }) => {
        const { id } = await theRepository(db, path)
        await printList<ListedStage>(options, {
          list: (part) => listStages(db, id, part, { state: options.status }),
          keyOf: (stage) => stage.id,
          describe: (stage) => describeStage(stage, path, baseUrl),
          line: (stage) =>
            [stage.id, `${stage.packageName} ${stage.version}`, stage.state, stagerOf(stage)].join('  '),
          none: `${path} has no staged versions.`,
        })
      }),
    )
}

function showCommand(): Command {
  return onStage('show', 'Show a staged version.').action((id: string, options: JsonOptions) =>
    withStage(id, async (_db, stage, { path, baseUrl }) => {
      const { packageName, version, state, sha256, stagedAt, expiresAt } = stage
      const described = describeStage(stage, path, baseUrl)
      const lines = [
        `${packageName} ${version} in ${path}: ${state}`,
        `staged ${stagedAt.toISOString()} by ${stagerOf(stage)}`,
        `expires ${expiresAt.toISOString()}`,
        `SHA-256 ${sha256}`,
        `review ${described.review_url}`,
      ]
      printResult(options, described, lines.join('\n'))
    }),
  )
}

function releaseCommand(): Command {
  return onStage('release', 'Release a staged version: publish it now. No second person is needed.')
    .addHelpText('after', '\nExample:\n  svc stage release 17')
    .action((id: string, options: JsonOptions) =>
      withStage(id, async (db, stage, { path, baseUrl }) => {
        await releaseStage(db, { stage, by: operator, baseUrl })
        const { packageName, version } = stage
        const json = { id, path, package: packageName, version, status: 'released' }
        printResult(options, json, `${packageName} ${version} is released in ${path}.`)
      }),
    )
}

function rejectCommand(): Command {
  return onStage('reject', 'Reject a staged version. Its number is free again.')
    .option('--reason <text>', 'why, for the event', '')
    .action((id: string, options: JsonOptions & { reason: string }) =>
      withStage(id, async (db, stage, { path }) => {
        await rejectStage(db, { stage, by: operator, reason: options.reason })
        const { packageName, version } = stage
        const json = { id, path, package: packageName, version, status: 'rejected' }
        printResult(options, json, `${packageName} ${version} is rejected.`)
      }),
    )
}

function onStage(verb: string, description: string): Command {
  return new Command(verb)
    .description(description)
    .argument('<id>', 'the id of the stage, as svc stage list shows it')
    .addOption(jsonOption())
}

/** Opens the database and runs the work on a stage. Throws when there is no such stage. */
function withStage<T>(
  id: string,
  work: (db: pg.Pool, stage: Stage, about: { path: string; baseUrl: string }) => Promise<T>,
): Promise<T> {
  return withDatabase(async (db, { baseUrl }) => {
    const stage = await findStage(db, id)
    const repository = stage && (await findRepository(db, stage.repositoryId))
    if (!repository) throw new Error(`There is no staged version ${JSON.stringify(id)}.`)
    return work(db, stage, { path: repository.path, baseUrl })
  })
}

function stagerOf({ stager, deployToken, by }: ListedStage): string {
  const run = by.token?.run
  return (
    (run && describeRun(run)) ?? stager ?? deployToken ?? (by.via === 'command' ? 'command line' : 'a token')
  )
}
