import { Command, Option } from 'commander'
import { readRowId } from '../domain/row-id.ts'
import { type JobState, jobStates, type ListedJob, listJobs, retryJobs } from '../jobs/job-rows.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, withDatabase } from './run.ts'

interface JobOptions extends ListOptions {
  state?: JobState
  name?: string
}

/** `svc job …` */
export function jobCommand(): Command {
  return new Command('job')
    .description('Background jobs of the server.')
    .addCommand(listCommand())
    .addCommand(retryCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description(
      'List the jobs that wait, run or have failed, oldest first. Failed ones are kept for 14 days.',
    )
    .addOption(new Option('--state <state>', 'only those in this state').choices(jobStates))
    .option('--name <name>', 'only those with this name, as svc system shows it')
    .action((options: JobOptions) =>
      withDatabase((db) =>
        printList<ListedJob>(options, {
          list: (part) => listJobs(db, { state: options.state ?? null, name: options.name ?? null }, part),
          keyOf: ({ id }) => id,
          describe: (job) => ({
            id: Number(job.id),
            name: job.name,
            state: job.state,
            attempts: job.attempts,
            created_at: job.createdAt,
            run_at: job.runAt,
            failed_at: job.failedAt,
            last_error: job.lastError,
          }),
          line: ({ id, name, state, attempts, lastError }) =>
            `${id}  ${state.padEnd(7)}  ${name}  attempts: ${attempts}${lastError === null ? '' : `  ${lastError}`}`,
          none: 'There are no jobs.',
        }),
      ),
    )
}

function retryCommand(): Command {
  return new Command('retry')
    .description('Run a job that has failed, or that waits for its next attempt, as soon as possible.')
    .argument('[id]', 'as svc job list shows it')
    .option('--name <name>', 'all failed jobs with this name')
    .addOption(jsonOption())
    .addHelpText('after', '\nExamples:\n  svc job retry 4711\n  svc job retry --name send-mail')
    .action(async (id: string | undefined, options: { name?: string } & JsonOptions) => {
      const { name } = options
      const ids = await withDatabase((db) => {
        if (id !== undefined && name === undefined && readRowId(id) !== null) return retryJobs(db, { id })
        if (id === undefined && name !== undefined) return retryJobs(db, { failedName: name })
        throw new Error('Pass the number of a job as svc job list shows it, or use --name.')
      })
      if (id !== undefined && ids.length === 0) {
        throw new Error(`There is no job ${id} that waits or has failed.`)
      }
      const text = ids.length === 1 ? 'The job is queued.' : `${ids.length} jobs are queued.`
      printResult(options, { retried: ids.map(Number) }, text)
    })
}
