import { join } from 'node:path'
import {
  aComposerProject,
  type ComposerProject,
  hasComposerClient,
} from '../test/support/composer-project.ts'
import { freePort } from '../test/support/program.ts'
import { aPackageZip } from '../test/support/registry-actors.ts'
import { type StaticFile, startNginx } from './nginx.ts'
import { aRegistry, claimPackages, growPackage, type Registry } from './seed.ts'
import type { Server } from './server.ts'
import { figure, ratio, table } from './table.ts'

const names = Array.from({ length: 60 }, (_, i) => `bench/lib${i}`)
const versions = 10

/** What somebody waits for who has a folder and a cache of this kind. */
const commands = [
  { title: 'update, cold', forget: ['cache', 'vendor'], words: ['update'] },
  { title: 'update, warm', forget: [], words: ['update'] },
  { title: 'install from the lock, cold', forget: ['cache', 'vendor'], words: ['install'] },
] as const

/** How long the real Composer takes with svc, and with nginx that serves the same files to everybody. */
export async function measureComposer(server: Server, folder: string, rounds: number): Promise<string> {
  if (!hasComposerClient) return 'composer: skipped, for Composer is not installed'
  const registry = await seed(server)
  const registryUrl = server.baseUrl + registry.path
  const port = await freePort()
  const mirrorUrl = `http://127.0.0.1:${port}/`
  const nginx = await startNginx(join(folder, 'mirror'), await mirror(server, registry, mirrorUrl), port)
  const projects = [await aProject(registryUrl, registry), nginx && (await aProject(mirrorUrl, registry))]
  try {
    const rows = commands.map(({ title }): string[] => [title])
    const seconds = commands.map(() => projects.map((): number[] => []))
    for (let round = 0; round < rounds; round += 1) {
      for (const [i, command] of commands.entries()) {
        for (const [j, project] of projects.entries()) {
          if (project) seconds[i]?.[j]?.push(await time(project, command))
        }
      }
    }
    for (const [i, row] of rows.entries()) {
      const [mine = 0, its = 0] = (seconds[i] ?? []).map(median)
      row.push(figure(mine), nginx ? figure(its) : '', nginx ? ratio(mine / its) : '')
    }
    return table(['composer, 60 packages of 10 versions', 'seconds', 'with nginx', 'ratio'], rows)
  } finally {
    for (const project of projects) await project?.remove()
    await nginx?.stop()
  }
}

async function seed(server: Server): Promise<Registry> {
  const registry = await aRegistry(server.db, 'private')
  const { baseUrl, db } = server
  await claimPackages(db, registry.repository.id, { vendor: 'bench', count: names.length })
  for (const name of names) {
    await growPackage(db, registry.repository.id, { name, to: versions - 1, baseUrl })
    const answer = await fetch(`${baseUrl}${registry.path}upload/${name}/1.1.0`, {
      method: 'PUT',
      headers: { authorization: registry.authorization },
      // It alone is installed: what the older versions require is nowhere.
      body: new Uint8Array(aPackageZip(name)),
    })
    if (answer.status !== 201) throw new Error(await answer.text())
  }
  return registry
}

/** All that Composer asks for, with the mirror's address in place of the registry's. */
async function mirror(server: Server, registry: Registry, mirrorUrl: string): Promise<StaticFile[]> {
  const registryUrl = server.baseUrl + registry.path
  const fetched: StaticFile[] = []

  async function copy(path: string): Promise<string> {
    const answer = await fetch(registryUrl + path, { headers: { authorization: registry.authorization } })
    const bytes = Buffer.from(await answer.arrayBuffer())
    const lastModified = new Date(answer.headers.get('last-modified') ?? Date.now())
    const isText = path.endsWith('.json')
    const text = isText ? bytes.toString().replaceAll(registryUrl, mirrorUrl) : ''
    fetched.push({ path, bytes: isText ? Buffer.from(text) : bytes, lastModified })
    return text
  }

  await copy('packages.json')
  for (const name of names) {
    const { packages } = JSON.parse(await copy(`p2/${name}.json`)) as {
      packages: Record<string, { dist: { url: string } }[]>
    }
    await copy(packages[name]?.[0]?.dist.url.slice(mirrorUrl.length) ?? '')
  }
  return fetched
}

async function aProject(url: string, { authorization }: Registry): Promise<ComposerProject> {
  const project = await aComposerProject()
  const [username, password] = Buffer.from(authorization.slice('Basic '.length), 'base64')
    .toString()
    .split(':')
  await project.write('auth.json', { 'http-basic': { [new URL(url).host]: { username, password } } })
  await project.write('composer.json', {
    repositories: [{ type: 'composer', url }, { 'packagist.org': false }],
    config: { 'secure-http': false },
    require: Object.fromEntries(names.map((name) => [name, '^1.0'])),
  })
  return project
}

async function time(project: ComposerProject, { forget, words }: (typeof commands)[number]): Promise<number> {
  await project.forget(...forget)
  const start = performance.now()
  const { code, output } = await project.composer(...words, '--no-progress')
  if (code !== 0) throw new Error(output)
  return (performance.now() - start) / 1000
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
}
