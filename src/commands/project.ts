import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import { formatCount } from '../domain/formats.ts'
import { operator } from '../domain/principal.ts'
import type { Finding } from '../projects/findings.ts'
import {
  deleteProject,
  describeProject,
  describeSbom,
  findProject,
  listProjects,
  type PostedLock,
  type Project,
  type ProjectLock,
  postLock,
} from '../projects/projects.ts'
import { openUpstreamAdvisories } from '../upstreams/advisories.ts'
import { openUpstreamClient } from '../upstreams/client/fetch.ts'
import { openLog } from '../web/server/log.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theGroup, withDatabase } from './run.ts'

/** `svc project …` */
export function projectCommand(): Command {
  return new Command('project')
    .description('Lock files of projects: which project has which version of a package.')
    .addCommand(reportCommand(storeLock))
    .addCommand(listCommand())
    .addCommand(sbomCommand())
    .addCommand(deleteCommand())
}

/** The options of `svc project report`. */
export interface ReportOptions extends JsonOptions {
  lock: string
  environment: string
  commit?: string
  failIfAffected?: boolean
}

/** Stores a lock file, on the database or at a server. `path` is that of the project. Returns what is wrong with it. */
type PostLock = (path: string, bytes: Buffer, options: ReportOptions) => Promise<PostedLock>

/** `svc project report`, which gives the lock file to `post`. */
export function reportCommand(post: PostLock): Command {
  return new Command('report')
    .description('Store the composer.lock of a project, and say what is wrong with its packages.')
    .argument('<project>', '<group>/<project>, such as acme/shop')
    .option('--lock <file>', 'the lock file', 'composer.lock')
    .option('--environment <name>', 'where it is in use', 'production')
    .option('--commit <commit>', 'commit of the project')
    .option('--fail-if-affected', 'exit with 1 when something is wrong')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExample:\n  svc project report acme/shop --lock composer.lock --environment staging',
    )
    .action(async (path: string, options: ReportOptions) => {
      const { lock } = options
      const bytes = await readFile(lock).catch((error: NodeJS.ErrnoException) => {
        throw new Error(`${lock} cannot be read (${error.code}).`)
      })
      const posted = await post(path, bytes, options)
      printResult(options, posted, describePosted(posted))
      if (options.failIfAffected && posted.affected.length > 0)
        throw new Error(`${posted.project} has packages with a problem.`)
    })
}

async function storeLock(path: string, bytes: Buffer, options: ReportOptions): Promise<PostedLock> {
  const { environment, commit = null } = options
  const [group, project] = readPath(path)
  return withDatabase(async (db, config) => {
    const { id: groupId } = await theGroup(db, group)
    const client = openUpstreamClient(config)
    const log = openLog('warn', process.stderr)
    try {
      const listUpstreamAdvisories = openUpstreamAdvisories({ db, client }, log)
      const context = { config, db, listUpstreamAdvisories, log }
      return await postLock(context, { groupId, by: operator }, { project, environment, commit }, bytes)
    } finally {
      await client.close()
    }
  })
}

function describePosted({ project, packages, affected }: PostedLock): string {
  const first = `${project}: ${formatCount(packages, 'package')}, ${affected.length === 0 ? 'nothing wrong' : `${affected.length} wrong`}.`
  return [first, ...affected.map(lineOf)].join('\n')
}

function lineOf({ package: name, version, reason, advisory, title }: Finding): string {
  return [`${name} ${version}`, reason, advisory, title].filter(Boolean).join('  ')
}

interface ListProjectsOptions extends ListOptions {
  package?: string
  constraint?: string
  affected?: boolean
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the projects of a group by name, also by the version of a package that they have.')
    .argument('<group>', 'the group, such as acme')
    .option('--package <name>', 'only projects with this package')
    .option('--constraint <constraint>', 'only versions of the package that satisfy it, such as "<2.0"')
    .option('--affected', 'only projects with something wrong')
    .action((groupName: string, options: ListProjectsOptions) =>
      withDatabase(async (db) => {
        const { id } = await theGroup(db, groupName)
        const filter = {
          package: options.package ?? null,
          constraint: options.constraint ?? null,
          isAffected: options.affected ?? false,
        }
        await printList<Project>(options, {
          list: (part) => listProjects(db, id, filter, part),
          keyOf: ({ name }) => name,
          describe: describeProject,
          line: ({ name, locks }) => [name, ...locks.map(describeLock)].join('  '),
          none:
            filter.package === null && filter.constraint === null && !filter.isAffected
              ? `${groupName} has no projects yet: svc project report stores the lock file of one.`
              : `${groupName} has no such projects.`,
        })
      }),
    )
}

function describeLock({ environment, version, packages, problems }: ProjectLock): string {
  const what = version ?? formatCount(packages, 'package')
  return `${environment}: ${what}${problems === 0 ? '' : `, ${problems} wrong`}`
}

function sbomCommand(): Command {
  return new Command('sbom')
    .description('Print the software bill of materials of a project: CycloneDX 1.6 in JSON.')
    .argument('<project>', '<group>/<project>, such as acme/shop')
    .option('--environment <name>', 'where the lock file is in use', 'production')
    .addOption(jsonOption())
    .action(async (path: string, { environment }: { environment: string }) => {
      const [groupName, project] = readPath(path)
      const sbom = await withDatabase(async (db) =>
        describeSbom(db, await theGroup(db, groupName), { project, environment }),
      )
      if (sbom === null) throw new Error(`${path} has no lock file of ${JSON.stringify(environment)}.`)
      process.stdout.write(`${sbom}\n`)
    })
}

function deleteCommand(): Command {
  return new Command('delete')
    .description('Delete a project and its lock files.')
    .argument('<project>', '<group>/<project>, such as acme/shop')
    .addOption(forceOption())
    .addOption(jsonOption())
    .action(async (path: string, options: ForceOptions) => {
      const [groupName, project] = readPath(path)
      const isDeleted = await withDatabase(async (db) => {
        const { id } = await theGroup(db, groupName)
        const found = await findProject(db, id, project)
        if (!found) return false
        await confirmInTerminal(
          `This deletes ${path} and its ${formatCount(found.locks.length, 'lock file')}.`,
          project,
          options,
        )
        return deleteProject(db, operator, id, project)
      })
      if (!isDeleted) throw new Error(`There is no project ${JSON.stringify(path)}.`)
      printResult(options, { group: groupName, project }, `Project ${path} deleted.`)
    })
}

/** Reads the path of a project. Throws unless it is a group and a name. */
export function readPath(path: string): [group: string, project: string] {
  const [group = '', project = '', ...others] = path.split('/')
  if (group === '' || project === '' || others.length > 0)
    throw new Error(`${JSON.stringify(path)} is no <group>/<project>.`)
  return [group, project]
}
