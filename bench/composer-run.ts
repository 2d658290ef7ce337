import { aComposerProject, type ComposerProject } from '../test/support/composer-project.ts'
import { requestText, runLoad } from './load.ts'
import type { Registry } from './seed.ts'
import type { Server } from './server.ts'

/** A folder that is removed before a command. */
type Folder = 'cache' | 'vendor'

/**
 * Creates a project that requires packages from the registry at a URL. Without a registry the project sends no
 * credentials.
 */
export async function aProject(
  url: string,
  registry: Registry | null,
  names: readonly string[],
): Promise<ComposerProject> {
  const project = await aComposerProject()
  if (registry) {
    const [username, password] = Buffer.from(registry.authorization.slice('Basic '.length), 'base64')
      .toString()
      .split(':')
    await project.write('auth.json', { 'http-basic': { [new URL(url).host]: { username, password } } })
  }
  await project.write('composer.json', {
    repositories: [{ type: 'composer', url }, { 'packagist.org': false }],
    config: { 'secure-http': false },
    require: Object.fromEntries(names.map((name) => [name, '^1.0'])),
  })
  return project
}

/** Removes folders of the project, runs a Composer command, and returns its time in seconds. */
export async function timeComposer(
  project: ComposerProject,
  command: 'update' | 'install',
  forget: readonly Folder[],
): Promise<number> {
  await project.forget(...forget)
  const start = performance.now()
  const { code, output } = await project.composer(command, '--no-progress')
  if (code !== 0) throw new Error(output)
  return (performance.now() - start) / 1000
}

/**
 * Sends pulls to svc over as many connections as Composer uses, so that Node has compiled their code. A server in use has
 * served more.
 */
export async function warmUp(
  { port }: Server,
  { path, authorization }: Registry,
  name: string,
): Promise<void> {
  const headers = { authorization, 'accept-encoding': 'gzip' }
  for (const below of ['packages.json', `p2/${name}.json`]) {
    const requests = [requestText(`${path}${below}`, { headers })]
    await runLoad({ port, connections: 12, count: 3000, status: 200, requests })
  }
}
