import { join } from 'node:path'
import { hasComposerClient } from '../test/support/composer-project.ts'
import { freePort } from '../test/support/program.ts'
import { aPackageZip } from '../test/support/registry-actors.ts'
import { aProject, timeComposer, warmUp } from './composer-run.ts'
import { inTurn, median, medianRatio } from './median.ts'
import { checkPasswords, nginxAuthorization, type StaticFile, startNginx } from './nginx.ts'
import { aRegistry, claimPackages, growPackage, type Registry } from './seed.ts'
import type { Server } from './server.ts'
import { figure, ratio, table } from './table.ts'

const names = Array.from({ length: 60 }, (_, i) => `bench/lib${i}`)
const versions = 10

/** A Composer command, and the folders that are removed before it. */
const commands = [
  { title: 'update, cold', forget: ['cache', 'vendor'], command: 'update' },
  { title: 'update, warm', forget: [], command: 'update' },
  { title: 'install from the lock, cold', forget: ['cache', 'vendor'], command: 'install' },
] as const

/**
 * Measures the real Composer with svc, and with an nginx that serves the same files. It checks a password file, but no
 * permission. Returns a Markdown table.
 */
export async function measureComposer(server: Server, folder: string, rounds: number): Promise<string> {
  if (!hasComposerClient) return 'composer: skipped, because Composer is not installed'
  const registry = await seed(server)
  const registryUrl = server.baseUrl + registry.path
  const port = await freePort()
  const mirrorUrl = `http://127.0.0.1:${port}/`
  const nginx = await startNginx(join(folder, 'mirror'), await mirror(server, registry, mirrorUrl), port, {
    http: checkPasswords,
  })
  const projects = [
    await aProject(registryUrl, registry.authorization, names),
    nginx && (await aProject(mirrorUrl, nginxAuthorization, names)),
  ]
  try {
    await warmUp(server, registry, { names, rounds: 150 })
    const rows = commands.map(({ title }): string[] => [title])
    const seconds = commands.map(() => projects.map((): number[] => []))
    for (let round = 0; round < rounds; round += 1) {
      for (const [i, { command, forget }] of commands.entries()) {
        for (const [j, project] of inTurn([...projects.entries()], round)) {
          if (project) seconds[i]?.[j]?.push(await timeComposer(project, command, forget))
        }
      }
    }
    for (const [i, row] of rows.entries()) {
      const [ofSvc = [], ofNginx = []] = seconds[i] ?? []
      row.push(figure(median(ofSvc)))
      row.push(...(nginx ? [figure(median(ofNginx)), ratio(medianRatio(ofSvc, ofNginx))] : ['', '']))
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
    const response = await fetch(`${baseUrl}${registry.path}upload/${name}/1.1.0`, {
      method: 'PUT',
      headers: { authorization: registry.authorization },
      // Composer can install only this version, because no registry has the requirements of the older ones.
      body: new Uint8Array(aPackageZip(name)),
    })
    if (response.status !== 201) throw new Error(await response.text())
  }
  return registry
}

/** Returns every file that Composer requests. The URLs in the files are those of the mirror, not of the registry. */
async function mirror(server: Server, registry: Registry, mirrorUrl: string): Promise<StaticFile[]> {
  const registryUrl = server.baseUrl + registry.path
  const fetched: StaticFile[] = []

  async function copy(path: string): Promise<string> {
    const response = await fetch(registryUrl + path, { headers: { authorization: registry.authorization } })
    const bytes = Buffer.from(await response.arrayBuffer())
    const lastModified = new Date(response.headers.get('last-modified') ?? Date.now())
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
