import { aComposerProject, type ComposerProject } from '../test/support/composer-project.ts'
import { requestText, startLoadProcess } from './load.ts'
import type { Registry } from './seed.ts'
import type { Server } from './server.ts'

/** A Composer command, and the folders that are removed before it. */
export type TimedCommand = [command: 'update' | 'install', forget: readonly ('cache' | 'vendor')[]]

/**
 * Creates a project that requires packages from the registry at a URL. `authorization` has its credentials, as in the
 * header of Basic authentication; with null the project sends none.
 */
export async function aProject(
  url: string,
  authorization: string | null,
  names: readonly string[],
): Promise<ComposerProject> {
  const project = await aComposerProject()
  if (authorization !== null) {
    const [username, password] = Buffer.from(authorization.slice('Basic '.length), 'base64')
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
  ...[command, forget]: TimedCommand
): Promise<number> {
  await project.forget(...forget)
  const start = performance.now()
  const { code, output } = await project.composer(command, '--no-progress')
  if (code !== 0) throw new Error(output)
  return (performance.now() - start) / 1000
}

/**
 * Sends to svc what Composer sends for packages, `rounds` times, over as many connections as Composer uses. After some
 * hundred rounds Node has compiled the code of these requests, as that of a server in use. The report of downloads is
 * among them, because Node discards nearly all of that code when the first request with a body arrives.
 */
export async function warmUp(
  { baseUrl, port }: Server,
  { path, authorization }: Registry,
  { names, rounds }: { names: readonly string[]; rounds: number },
): Promise<void> {
  const { run, stop } = startLoadProcess()
  const send = async (status: number, requests: string[]) => {
    await run({ port, connections: 12, count: rounds * requests.length, status, requests })
  }
  const headers = {
    accept: '*/*',
    'accept-encoding': 'deflate, gzip, br, zstd',
    connection: 'keep-alive',
    authorization,
    'user-agent': 'Composer/2.5.5 (Linux; 6.1.0; PHP 8.2.29; cURL 7.88.1)',
  }
  const request = (below: string, more: Record<string, string> = {}) =>
    requestText(below, { headers: { ...headers, ...more } })
  try {
    const downloads = { downloads: names.map((name) => ({ name, version: '1.1.0.0' })) }
    await send(200, [
      requestText(`${path}downloads`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(downloads),
      }),
    ])
    await send(200, [request(`${path}packages.json`)])
    await send(
      200,
      names.map((name) => request(`${path}p2/${name}.json`)),
    )
    const documents = await Promise.all(
      names.map(async (name) => {
        const response = await fetch(`${baseUrl}${path}p2/${name}.json`, { headers: { authorization } })
        const { packages } = (await response.json()) as {
          packages: Record<string, { dist: { url: string } }[]>
        }
        return {
          name,
          lastModified: response.headers.get('last-modified') ?? '',
          archive: new URL(packages[name]?.[0]?.dist.url ?? '').pathname,
        }
      }),
    )
    await send(
      200,
      documents.map(({ archive }) => request(archive)),
    )
    await send(
      304,
      documents.map(({ name, lastModified }) =>
        request(`${path}p2/${name}.json`, { 'if-modified-since': lastModified }),
      ),
    )
  } finally {
    stop()
  }
}
