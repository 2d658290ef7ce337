import { join } from 'node:path'
import { readConfig } from '../src/config.ts'
import { operator } from '../src/domain/principal.ts'
import { openUpstreamClient } from '../src/upstreams/client/fetch.ts'
import { addUpstream } from '../src/upstreams/configure.ts'
import { type ComposerProject, hasComposerClient } from '../test/support/composer-project.ts'
import { freePort } from '../test/support/program.ts'
import { aPackageZip } from '../test/support/registry-actors.ts'
import { aProject, type TimedCommand, timeComposer, warmUp } from './composer-run.ts'
import { inTurn, median, medianRatio } from './median.ts'
import { checkPasswords, filesLocation, nginxAuthorization, type StaticFile, startNginx } from './nginx.ts'
import { aRegistry, type Registry } from './seed.ts'
import { type Server, startRelay } from './server.ts'
import { figure, ratio, table } from './table.ts'

const names = Array.from({ length: 60 }, (_, i) => `upstream/lib${i}`)
const versions = Array.from({ length: 10 }, (_, i) => `1.${9 - i}.0`)
const environment = { UPSTREAM_HTTP: 'true', UPSTREAM_PRIVATE_HOSTS: '127.0.0.1' }

/** The round trip to an upstream on the internet, in milliseconds. */
const farMilliseconds = 20

/** How many times svc mirrors all packages before Composer is timed, so that Node has compiled that code. */
const earlierMirrors = 20

/**
 * Measures the real Composer with packages of an upstream, which is an nginx on this machine. The first update through
 * svc is compared with an update from the upstream itself. Everything after it is compared with an nginx that checks a
 * password file, because svc checks a token. The last rows are for upstreams behind a relay that delays them.
 */
export async function measureUpstream(server: Server, folder: string, rounds: number): Promise<string> {
  if (!hasComposerClient) return 'upstream: skipped, because Composer is not installed'
  const near = await measureOne(server, join(folder, 'near'), rounds, 0)
  const far = await measureOne(server, join(folder, 'far'), rounds, farMilliseconds)
  if (!near || !far) return 'upstream: skipped, because nginx is not installed'
  const row = (title: string, [ofSvc, ofNginx]: [number[], number[]]) => {
    return [title, figure(median(ofSvc)), figure(median(ofNginx)), ratio(medianRatio(ofSvc, ofNginx))]
  }
  const rows = [
    ...titles.map((title, i) => row(title, near[i] ?? [[], []])),
    ...titles.map((title, i) => row(`${title}, upstream ${farMilliseconds} ms away`, far[i] ?? [[], []])),
  ]
  return table(['upstream, 60 mirrored packages', 'seconds', 'with nginx', 'ratio'], rows)
}

const titles = ['update, nothing mirrored yet', 'update, cold', 'update, warm', 'install from the lock, cold']

/** Returns the seconds of each row, through svc and with nginx. Null without nginx. */
async function measureOne(
  server: Server,
  folder: string,
  rounds: number,
  roundTripMs: number,
): Promise<[number[], number[]][] | null> {
  const upstream = await startUpstream(join(folder, 'upstream'), roundTripMs)
  const guarded = await startUpstream(join(folder, 'guarded'), roundTripMs, checkPasswords)
  if (!upstream || !guarded) return null
  const seconds = titles.map((): [number[], number[]] => [[], []])
  try {
    for (let round = 0; round < earlierMirrors; round += 1) {
      await warmUp(server, await aMirror(server, upstream.url), { names, rounds: 1 })
    }
    // The first round only warms up svc. It is not counted.
    for (let round = 0; round <= rounds; round += 1) {
      // A new repository has no mirrored packages yet.
      const registry = await aMirror(server, upstream.url)
      const ofSvc = await aProject(server.baseUrl + registry.path, registry.authorization, names)
      const ofUpstream = await aProject(upstream.url, null, names)
      const ofGuarded = await aProject(guarded.url, nginxAuthorization, names)
      const sides: [number, ComposerProject, ComposerProject][] = [
        [0, ofSvc, ofSvc],
        [1, ofUpstream, ofGuarded],
      ]
      for (const [side, first, later] of inTurn(sides, round)) {
        const note = async (row: number, project: ComposerProject, ...timed: TimedCommand) => {
          const taken = await timeComposer(project, ...timed)
          if (round > 0) seconds[row]?.[side]?.push(taken)
        }
        await note(0, first, 'update', ['cache', 'vendor'])
        if (round === 0 && side === 0) await warmUp(server, registry, { names, rounds: 150 })
        await note(1, later, 'update', ['cache', 'vendor'])
        await note(2, later, 'update', [])
        await note(3, later, 'install', ['cache', 'vendor'])
      }
      for (const project of [ofSvc, ofUpstream, ofGuarded]) await project.remove()
    }
    return seconds
  } finally {
    await upstream.stop()
    await guarded.stop()
  }
}

/**
 * Starts an nginx with the packages, behind a relay if a round trip takes time. `http` is a part of its configuration.
 * Null when nginx is not installed.
 */
async function startUpstream(
  folder: string,
  roundTripMs: number,
  http = '',
): Promise<{ url: string; stop: () => Promise<void> } | null> {
  const port = await freePort()
  const publicPort = roundTripMs === 0 ? port : await freePort()
  const url = `http://127.0.0.1:${publicPort}`
  const nginx = await startNginx(folder, staticFiles(url), port, {
    http,
    // Composer sends the same requests to both: after an update it asks for advisories.
    server: `${filesLocation}
      location = /security-advisories { default_type application/json; return 200 '{"advisories":{}}'; }`,
  })
  if (!nginx) return null
  const relay = roundTripMs === 0 ? null : await startRelay(folder, port, publicPort, roundTripMs)
  return {
    url,
    async stop() {
      await relay?.stop()
      await nginx.stop()
    },
  }
}

function staticFiles(url: string): StaticFile[] {
  const lastModified = new Date(Date.now() - 86_400_000)
  const file = (path: string, content: object | Buffer): StaticFile => ({
    path,
    bytes: Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content)),
    lastModified,
  })
  return [
    file('packages.json', {
      packages: [],
      'metadata-url': `${url}/p2/%package%.json`,
      'security-advisories': { metadata: false, 'api-url': `${url}/security-advisories` },
    }),
    ...names.flatMap((name) => {
      const entries = versions.map((version) => ({
        name,
        version,
        'published-time': '2025-01-01T00:00:00+00:00',
        dist: {
          type: 'zip',
          url: `${url}/${name}.zip`,
          reference: Buffer.from(version + name).toString('hex'),
        },
      }))
      return [
        file(`p2/${name}.json`, { packages: { [name]: entries } }),
        file(`${name}.zip`, aPackageZip(name)),
      ]
    }),
  ]
}

async function aMirror(server: Server, url: string): Promise<Registry> {
  const registry = await aRegistry(server.db, 'private')
  const { id: repositoryId } = registry.repository
  const config = readConfig(environment)
  const client = openUpstreamClient(config)
  const change = { repositoryId, by: operator, baseUrl: server.baseUrl }
  await addUpstream({ config, db: server.db }, client, change, { url, name: 'nginx' })
  await client.close()
  return registry
}
