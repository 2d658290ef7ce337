import { Command, Option } from 'commander'
import { type DeployRight, deployRights } from '../domain/permissions.ts'
import { operator } from '../domain/principal.ts'
import {
  createDeployToken,
  type DeployToken,
  listDeployTokens,
  revokeDeployToken,
} from '../groups/deploy-tokens.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { daysOrNever, type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theGroup, theRepository, withDatabase } from './run.ts'

interface CreateOptions extends JsonOptions {
  name: string
  right: DeployRight
  repository?: string[]
  expiresInDays: number | 'never'
}

/** `svc deploy-token …` */
export function deployTokenCommand(): Command {
  return new Command('deploy-token')
    .description('Deploy tokens for build servers. They belong to a group, not to a person.')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(revokeCommand())
}

function createCommand(): Command {
  return new Command('create')
    .description('Create a deploy token. It is printed once.')
    .argument('<group>', 'the group that it belongs to')
    .requiredOption('--name <name>', 'what it is for')
    .addOption(
      new Option(
        '--right <right>',
        'read installs packages; publish also publishes them; report also sends lock files of projects',
      )
        .choices(Object.keys(deployRights))
        .default('read'),
    )
    .option(
      '--repository <paths...>',
      'only these repositories, such as acme/php (default: all of the group)',
    )
    .option('--expires-in-days <days>', 'lifetime in days; never: no expiration', daysOrNever, 90)
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExample:\n  svc deploy-token create acme --name ci --right publish --repository acme/php',
    )
    .action(createToken)
}

async function createToken(groupName: string, options: CreateOptions): Promise<void> {
  const { name, right, repository: paths, expiresInDays } = options
  const { id, token, expiresAt } = await withDatabase(async (db, config) => {
    const group = await theGroup(db, groupName)
    const outside = paths?.find((path) => !path.startsWith(`${groupName}/`))
    if (outside !== undefined) throw new Error(`${outside} is not a repository of ${groupName}.`)
    const repositories = paths ? await Promise.all(paths.map((path) => theRepository(db, path))) : 'all'
    const expiry = expiresInDays === 'never' ? 'never' : { inDays: expiresInDays }
    return createDeployToken({ config, db }, operator, {
      groupId: group.id,
      name,
      right,
      repositories,
      expiry,
    })
  })
  const end = expiresAt ? `until ${expiresAt.toISOString()}` : 'without expiration'
  printResult(
    options,
    { id: Number(id), token, name, group: groupName, right, expires_at: expiresAt },
    `Deploy token ${name} of ${groupName} created, valid ${end}. Shown only once: ${token}`,
  )
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description(
      'List the deploy tokens of a group, or of all groups, newest first. Revoked tokens are not listed.',
    )
    .argument('[group]', 'the group that they belong to')
    .action((groupName: string | undefined, options: ListOptions) =>
      withDatabase(async (db) => {
        const group = groupName === undefined ? null : await theGroup(db, groupName)
        const place = group && { groupId: group.id, repositoryId: null }
        await printList<DeployToken>(options, {
          list: (part) => listDeployTokens(db, place, part),
          keyOf: ({ id }) => id,
          describe: (token) => ({
            id: Number(token.id),
            group: token.group,
            name: token.name,
            right: token.right,
            repositories: token.isForAll ? 'all' : token.repositories,
            made_by: token.madeBy,
            created_at: token.createdAt,
            last_used_at: token.lastUsedAt,
            expires_at: token.expiresAt,
            expired: token.isExpired,
          }),
          line: ({ group: owner, name, right, isForAll, repositories, expiresAt }) =>
            `${owner}  ${name}  ${right}  ${isForAll ? 'all' : repositories.join(' ') || '-'}  ${expiresAt ? `until ${expiresAt.toISOString()}` : 'no expiration'}`,
          none: 'There are no deploy tokens.',
        })
      }),
    )
}

function revokeCommand(): Command {
  return new Command('revoke')
    .description('Revoke a deploy token at once.')
    .argument('<group>', 'the group that it belongs to')
    .requiredOption('--name <name>', 'the name it was made with')
    .addOption(forceOption())
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc deploy-token revoke acme --name ci')
    .action(async (groupName: string, options: { name: string } & ForceOptions) => {
      const { name } = options
      const revoked = await withDatabase(async (db) => {
        const group = await theGroup(db, groupName)
        await confirmInTerminal(`This ends the deploy token ${name} of ${groupName} for good.`, name, options)
        return revokeDeployToken(db, operator, { groupId: group.id, repositoryId: null }, { name })
      })
      if (revoked === null) throw new Error(`${groupName} has no deploy token ${JSON.stringify(name)}.`)
      printResult(options, { group: groupName, name }, `Deploy token ${name} of ${groupName} revoked.`)
    })
}
