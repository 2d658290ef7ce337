import { Command, Option } from 'commander'
import { type Visibility, visibilities } from '../domain/permissions.ts'
import { insertRepository, registryUrl } from '../repositories/repositories.ts'
import { theGroup } from './named.ts'
import { jsonOption } from './options.ts'
import { answer, withDatabase } from './run.ts'

interface CreateOptions {
  visibility: Visibility
  description: string
  json?: boolean
}

/** `svc repository …` */
export function repositoryCommand(): Command {
  return new Command('repository')
    .description('Repositories, each with its Composer registry.')
    .addCommand(createCommand())
}

function createCommand(): Command {
  return new Command('create')
    .description('Make a repository in a group.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .addOption(
      new Option('--visibility <visibility>', 'who may pull').choices(visibilities).default('private'),
    )
    .option('--description <text>', 'at most 350 characters', '')
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc repository create acme/php --description "Our PHP packages"')
    .action(createRepository)
}

async function createRepository(path: string, options: CreateOptions): Promise<void> {
  const { visibility, description } = options
  const [groupName = '', name = '', ...rest] = path.split('/')
  if (name === '' || rest.length > 0)
    throw new Error('Name the repository as <group>/<name>, such as acme/php.')
  const url = await withDatabase(async (db, { baseUrl }) => {
    const group = await theGroup(db, groupName)
    await insertRepository(db, { groupId: group.id, name, visibility, description })
    return registryUrl(baseUrl, path)
  })
  const text = `The ${visibility} repository ${path} is there. Its registry: ${url}`
  answer(options, { path, visibility, registry_url: url }, text)
}
