import { Command } from 'commander'
import { readConfig } from '../config.ts'
import { hasDatabase } from '../database/chosen-database.ts'
import type { PostedLock } from '../projects/projects.ts'
import {
  composerAuthCommand,
  loginCommand,
  logoutCommand,
  pushCommand,
  type ServerOptions,
  searchCommand,
  serverOption,
  whoamiCommand,
} from './login.ts'
import { jsonOption, wholeNumber } from './options.ts'
import { type ReportOptions, readPath, reportCommand } from './project.ts'
import { formatValue, printResult } from './run.ts'
import { findServer, freshLogin, readJson, send, theServer } from './server-login.ts'

/** An object of the API's JSON. */
type Row = Record<string, unknown>

/** A command whose act the API has. Its words and arguments are those of the command that works on the database. */
interface RemoteCommand {
  words: `${string} ${string}`
  description: string
  arguments: string[]
  /** Returns the path below `/api`. */
  path: (...given: string[]) => string
  /** The members of a row that are printed. */
  columns: string[]
  /** Returns the rows of a response, for a list. */
  rows?: (body: never) => Row[]
  /** Returns the body of a change. Without it, the command reads. */
  change?: (...given: string[]) => object
}

const repository = (path = '') => `/repositories/${path.split('/').map(encodeURIComponent).join('/')}`
const packageIn = (path = '', name = '') =>
  `${repository(path)}/packages/${name.split('/').map(encodeURIComponent).join('/')}`
const all = (rows: Row[]) => rows

/** Every command that works with a login. `svc --help` lists them where there is no database. */
const remoteCommands: RemoteCommand[] = [
  {
    words: 'group list',
    description: 'List your groups by name.',
    arguments: [],
    path: () => '/groups',
    columns: ['name', 'role'],
    rows: all,
  },
  {
    words: 'repository list',
    description: 'List your repositories, or those of a group, by name.',
    arguments: ['[group]'],
    path: (group) => (group ? `/groups/${encodeURIComponent(group)}/repositories` : '/repositories'),
    columns: ['path', 'visibility', 'role'],
    rows: all,
  },
  {
    words: 'repository show',
    description: 'Show a repository.',
    arguments: ['<path>'],
    path: repository,
    columns: ['path', 'visibility', 'role', 'registry_url', 'description'],
  },
  {
    words: 'package list',
    description: 'List the packages of a repository by name.',
    arguments: ['<path>'],
    path: (path) => `${repository(path)}/packages`,
    columns: ['name', 'latest_version', 'downloads'],
    rows: all,
  },
  {
    words: 'package show',
    description: 'Show a package.',
    arguments: ['<path>', '<package>'],
    path: packageIn,
    columns: ['name', 'latest_version', 'version_count', 'downloads', 'description'],
  },
  {
    words: 'package unabandon',
    description: 'Mark an abandoned package as maintained again.',
    arguments: ['<path>', '<package>'],
    path: packageIn,
    columns: ['name', 'abandoned'],
    change: () => ({ abandoned: false }),
  },
  {
    words: 'package abandon',
    description: 'Mark a package as abandoned. Composer warns people who install it.',
    arguments: ['<path>', '<package>', '[replacement]'],
    path: packageIn,
    columns: ['name', 'abandoned', 'replacement'],
    change: (_path, _name, replacement) => ({ abandoned: true, ...(replacement && { replacement }) }),
  },
  {
    words: 'version list',
    description: 'List the versions of a package, the highest first.',
    arguments: ['<path>', '<package>'],
    path: packageIn,
    columns: ['version', 'sha256', 'size'],
    rows: ({ versions }: { versions: Row[] }) => versions,
  },
  {
    words: 'stage list',
    description: 'List the staged versions of a repository, the latest first.',
    arguments: ['<path>'],
    path: (path) => `${repository(path)}/stages`,
    columns: ['id', 'name', 'version', 'status'],
    rows: all,
  },
  {
    words: 'project list',
    description: 'List the projects of a group by name.',
    arguments: ['<group>'],
    path: (group = '') => `/groups/${encodeURIComponent(group)}/projects`,
    columns: ['project'],
    rows: all,
  },
]

/** Commands that always speak to a server. */
const serverCommands = [
  loginCommand,
  logoutCommand,
  whoamiCommand,
  pushCommand,
  searchCommand,
  composerAuthCommand,
]

/** The pages on which people do what an application may not do for them. */
const pages: Record<string, string> = {
  account: '/settings/account',
  session: '/settings/sessions',
  token: '/settings/tokens',
  application: '/settings/authorizations',
  invitation: '/<group>/-/members',
  member: '/<group>/-/members',
  'deploy-token': '/<group>/-/deploy-tokens',
  webhook: '/<group>/<name>/-/webhooks',
  'trusted-publisher': '/<group>/<name>/-/trusted-publishers',
  source: '/<group>/<name>/-/sources',
  upstream: '/<group>/<name>/-/upstreams',
  stage: '/<group>/<name>/-/stages',
  project: '/<group>/-/projects',
  policy: '/<group>/-/policies',
  retention: '/<group>/<name>/-/settings/retention',
  group: '/<group>',
  repository: '/<group>/<name>/-/settings',
  package: '/<group>/<name>',
  version: '/<group>/<name>',
}

/**
 * Returns the server to which a command line speaks: that of `--server`, or that of the latest login where the environment
 * names no database and none was made. Null when the commands work on the database.
 */
export async function chooseServer(words: readonly string[]): Promise<string | null> {
  const i = words.findIndex((word) => word === '--server' || word.startsWith('--server='))
  if (i !== -1) return theServer(words[i]?.split('=')[1] ?? words[i + 1] ?? '')
  const server = await findServer(undefined)
  if (server === null || process.env['DATABASE_URL']) return null
  return (await hasDatabase(readConfig(process.env))) ? null : server
}

/**
 * Returns the command line for a server. `nouns` are those of the commands for a database: one without an endpoint says where
 * it works.
 */
export function makeRemoteProgram(version: string, server: string, nouns: Iterable<string>): Command {
  const program = new Command('svc')
    .version(version, '--version', 'print the version')
    .description(
      `An OAuth 2.0 authorization server and private Composer registries. These commands speak to ${server}.`,
    )
  for (const make of serverCommands) program.addCommand(make())
  const known = new Set(program.commands.map((command) => command.name()))
  for (const noun of nouns) {
    if (known.has(noun)) continue
    const own = remoteCommands.filter(({ words }) => words.startsWith(`${noun} `))
    const command = new Command(noun)
      .argument('[words...]')
      .allowUnknownOption()
      .action(() => refuse(noun, server))
    for (const remote of own) command.addCommand(remoteCommand(remote, server))
    if (noun === 'project') command.addCommand(remoteReportCommand(server))
    if (own.length > 0) command.description(`Of ${server}.`)
    program.addCommand(command, { hidden: own.length === 0 })
  }
  return program
}

function refuse(noun: string, server: string): never {
  const page = pages[noun]
  throw new Error(
    page === undefined
      ? `svc ${noun} works on the database: run it on the server. You are signed in to ${server}.`
      : `An application may not do this for you. Use ${server}${page}, or run svc ${noun} on the server.`,
  )
}

/** `svc project report` at a server. */
function remoteReportCommand(chosen: string): Command {
  const post = async (path: string, bytes: Buffer, options: ReportOptions & ServerOptions) => {
    const { environment, commit } = options
    const [group, project] = readPath(path).map(encodeURIComponent)
    const server = await theServer(options.server ?? chosen)
    const { accessToken } = await freshLogin(server)
    const query = new URLSearchParams({ environment, ...(commit !== undefined && { commit }) })
    const response = await send(`${server}/api/groups/${group}/projects/${project}/lock?${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${accessToken}` },
      body: new Uint8Array(bytes),
      signal: AbortSignal.timeout(600_000),
    })
    return readJson<PostedLock>(response)
  }
  return reportCommand(post).addOption(serverOption())
}

interface RemoteOptions extends ServerOptions {
  limit: number
  after?: string
}

function remoteCommand(remote: RemoteCommand, chosen: string): Command {
  const command = new Command(remote.words.split(' ')[1])
    .description(remote.description)
    .addOption(serverOption())
    .addOption(jsonOption())
  for (const argument of remote.arguments) command.argument(argument)
  if (remote.rows) {
    command
      .option('--limit <n>', 'how many to list', wholeNumber('items', 1, 100), 30)
      .option('--after <key>', 'continue after this item: the value of "next" in the previous part')
  }
  return command.action(async (...given: unknown[]) => {
    const texts = given.filter((one) => typeof one === 'string')
    await run(remote, texts, command.opts<RemoteOptions>(), chosen)
  })
}

async function run(
  { path, rows, change, columns }: RemoteCommand,
  given: string[],
  options: RemoteOptions,
  chosen: string,
): Promise<void> {
  const server = await theServer(options.server ?? chosen)
  const { accessToken } = await freshLogin(server)
  const query = new URLSearchParams({
    ...(rows && { limit: String(options.limit) }),
    ...(options.after !== undefined && { cursor: options.after }),
  })
  const response = await send(`${server}/api${path(...given)}?${query}`, {
    method: change ? 'PATCH' : 'GET',
    headers: {
      authorization: `Bearer ${accessToken}`,
      ...(change && { 'content-type': 'application/json' }),
    },
    ...(change && { body: JSON.stringify(change(...given)) }),
  })
  const body = await readJson<Row>(response)
  if (!rows) {
    const lines = columns.map((name) => `${name.padEnd(15)}  ${formatValue(body[name] ?? null)}`)
    return printResult(options, body, lines.join('\n'))
  }
  const items = rows(body as never)
  const next = /[?&]cursor=([\w-]+)[^>]*>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1] ?? null
  const lines = items.map((row) => columns.map((name) => formatValue(row[name] ?? null)).join('  '))
  if (next !== null) lines.push(`More results: --after ${next}`)
  printResult(options, { items, next }, lines.join('\n') || 'Nothing.')
}
