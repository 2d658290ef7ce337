import { createReadStream } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { openStoreOfServer } from '../../archives/store-owner.ts'
import { normalizeVersion } from '../../composer/composer-version.ts'
import { projectRoot } from '../../config.ts'
import type { AppContext } from '../../context.ts'
import type { Log } from '../../domain/log.ts'
import { operator } from '../../domain/principal.ts'
import { findRepositoryByPath } from '../../groups/repositories.ts'
import { openStorageRoom } from '../../groups/storage-room.ts'
import { importPackages } from '../../packages/import.ts'
import { publishAdvisory } from '../../packages/lifecycle/warn.ts'
import { prefetchLock } from '../../packages/prefetch.ts'
import { openReadmeRenderer } from '../../packages/readmes/render-readme.ts'
import { addDownloads } from '../../packages/tables/downloads.ts'
import { countSiteDays } from '../../packages/tables/site-days.ts'
import { openArchiveMirror } from '../../upstreams/archive-mirror.ts'
import type { UpstreamClient, UpstreamRequests } from '../../upstreams/client/fetch.ts'
import { addUpstream } from '../../upstreams/configure.ts'
import { openMirror } from '../../upstreams/mirror.ts'
import { listUpstreams } from '../../upstreams/tables/upstreams.ts'

/** The version of the upstream's package that the demo has stored. */
const mirrored = { name: 'example/log', version: '3.1.0' }
/** The package with an advisory, and downloads of its versions. */
const advised = 'demo/greeting'
const downloads = { '1.0.0': 3, '1.1.0': 12, '2.0.0': 25 }

/**
 * Fills the repository of the demo: packages with versions, READMEs, an advisory and downloads, and a package of an
 * upstream. Everything comes from `views/demo/`, as if it were two registries, and takes the way of an import and of a
 * mirror. Needs no network. A part that exists already stays, so it can be repeated.
 */
export async function fillDemo({ config, db }: AppContext, path: string, log: Log): Promise<void> {
  const repository = await findRepositoryByPath(db, path)
  if (!repository) return
  const { id: repositoryId } = repository
  const { baseUrl } = config
  const archives = await openStoreOfServer(db, config)
  const readmes = openReadmeRenderer()
  const imported: string[] = []
  const tell = ({ name, version, outcome }: { name: string; version: string | null; outcome: string }) => {
    if (outcome === 'imported') imported.push(`${name} ${version}`)
  }
  try {
    await importPackages(
      { config, db, client: registryIn('own'), archives, readmes, tell },
      { repositoryId, url: 'https://demo.example.com', patterns: [], mapsVTags: false, isDryRun: false },
    )
  } finally {
    await readmes.close()
  }
  if (imported.length > 0) {
    const change = { repositoryId, packageName: advised, by: operator, baseUrl }
    await publishAdvisory(db, change, {
      title: 'Names are not escaped',
      affectedVersions: '<1.1.0',
      cve: null,
      link: null,
      severity: 'high',
    })
    await addDownloads(
      db,
      Object.entries(downloads).map(([version, count]) => ({
        repositoryId,
        packageName: advised,
        normalized: normalizeVersion(version) ?? version,
        count,
      })),
    )
  }
  await fillUpstream({ config, db }, repositoryId, log)
  // Otherwise, the charts of the administration would be empty for the first hour.
  await countSiteDays(db)
}

async function fillUpstream({ config, db }: AppContext, repositoryId: string, log: Log): Promise<void> {
  if ((await listUpstreams(db, repositoryId)).length > 0) return
  const client: UpstreamClient = { for: () => registryIn('upstream'), close: async () => {} }
  await addUpstream(
    { config, db },
    client,
    { repositoryId, by: operator },
    {
      url: 'https://packages.example.com',
      name: 'example',
      allow: ['example/*'],
    },
  )
  const archiveMirror = openArchiveMirror(
    {
      db,
      client,
      archives: await openStoreOfServer(db, config),
      room: openStorageRoom({ config, db }),
      maxArchiveBytes: config.maxArchiveBytes,
    },
    log,
  )
  const mirror = openMirror({ config, db, client }, log)
  try {
    const locked = { packages: [{ ...mirrored, dist: { type: 'zip' } }] }
    await prefetchLock({ db, mirror, archiveMirror }, repositoryId, JSON.stringify(locked))
  } finally {
    await mirror.close()
  }
}

/** Returns requests that read a folder of `views/demo/` as if it were a registry on the web. */
function registryIn(folder: 'own' | 'upstream'): UpstreamRequests {
  const fileOf = (url: string) => resolve(projectRoot, 'views/demo', folder, `.${new URL(url).pathname}`)
  return {
    fetchDocument: async (url, use) => {
      const bytes = await readFile(fileOf(url)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null
        throw error
      })
      if (bytes === null) return { kind: 'missing' }
      return {
        kind: 'found',
        content: await use(bytes, { lastModified: null }),
        lastModified: null,
        next: null,
      }
    },
    fetchArchive: async (url) => {
      const file = fileOf(url)
      return { body: createReadStream(file), size: (await stat(file)).size }
    },
  }
}
