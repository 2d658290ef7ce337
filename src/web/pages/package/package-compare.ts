import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { ArchiveBrowser } from '../../../archives/archive-files.ts'
import type { ChangedFiles } from '../../../archives/archive-tasks.ts'
import {
  isJsonObject,
  type Json,
  type JsonObject,
  maxManifestBytes,
} from '../../../composer/manifest-json.ts'
import type { AppContext } from '../../../context.ts'
import { openReadCache } from '../../../domain/read-cache.ts'
import {
  type DescribedVersion,
  type ListedVersion,
  listVersions,
} from '../../../packages/tables/listed-versions.ts'
import { readQuery, text } from '../../forms.ts'
import type { HeavyPages } from '../../network-turns.ts'
import { pageNotFound } from '../../page-error.ts'
import { nobody, page } from '../../pages.ts'
import { may } from '../permit.ts'
import { foundIn } from './package-files.ts'
import {
  findPackageView,
  findShownVersion,
  listOfferedVersions,
  type PackageRoute,
  type PackageView,
  packagePath,
  readingArchive,
  refuseQuarantined,
} from './package-view.ts'

/** The maximum number of paths of one kind on a page. */
const maxPaths = 150
const maxFields = 150
const maxValueCharacters = 150

/** A value of composer.json that differs between two versions. */
interface ChangedField {
  /** The path of the value, such as `require.acme/lib`. */
  field: string
  /** The value as JSON. Null when the version does not have it. */
  before: string | null
  after: string | null
}

/** The differences between two archives. They never change. */
interface Comparison {
  files: { title: string; kind: keyof ChangedFiles; paths: string[]; left: number }[]
  /** Null when a composer.json cannot be read. */
  fields: ChangedField[] | null
}

/** The size of the comparisons in memory. */
const maxCachedBytes = 8 * 1024 * 1024

const comparePage = page<
  PackageView & {
    offered: ListedVersion[]
    /** The chosen versions. `from` is the first offer when there is no older version, and null when it is the only one. */
    chosen: { from: string | null; to: string }
    /** Null when there is no version to compare with. */
    compared: ({ from: DescribedVersion; to: DescribedVersion } & Comparison) | null
  }
>('pages/compare')

const CompareQuery = z.object({ from: text, to: text })

/** `…/-/compare?from=&to=`: the files and the values of composer.json that differ between two versions. */
export async function compareRoutes(
  app: FastifyInstance,
  context: AppContext & { archives: ArchiveBrowser; heavy: HeavyPages },
): Promise<void> {
  const { db, archives, heavy } = context
  const comparisons = openReadCache<Comparison, { from: DescribedVersion; to: DescribedVersion }>({
    maxSize: maxCachedBytes,
    sizeOf: (comparison) => JSON.stringify(comparison).length * 2,
    read: (_hashes, { from, to }) => compare(from, to),
  })

  const show = heavy<PackageRoute>(async (request, reply) => {
    const view = await findPackageView(context, request)
    const query = readQuery(CompareQuery, request)
    const to = await findShownVersion(context, view, query.to)
    const choice = may(view.repository, view.session, 'push') ? 'undeleted' : 'installable'
    const older = { after: to.id, limit: 1 }
    const before = query.from || (await listVersions(db, view.about.id, choice, older))[0]?.version
    const from = before ? await findShownVersion(context, view, before) : null
    for (const version of [from, to]) if (version) refuseQuarantined(view, version)
    const offered = await listOfferedVersions(context, view)
    const other = offered.find(({ version }) => version !== to.version)?.version ?? null
    return comparePage(reply, view.session ?? nobody, {
      ...view,
      offered,
      chosen: { from: from?.version ?? other, to: to.version },
      compared: from && { from, to, ...(await comparisonOf(from, to)) },
    })
  })
  app.get<PackageRoute>(`${packagePath}/-/compare`, show)

  async function comparisonOf(from: DescribedVersion, to: DescribedVersion): Promise<Comparison> {
    const found = await comparisons.fetch(`${from.sha256} ${to.sha256}`, { context: { from, to } })
    return found as Comparison
  }

  async function compare(from: DescribedVersion, to: DescribedVersion): Promise<Comparison> {
    const changes = await readingArchive(() => archives.compare(from.sha256, to.sha256, maxPaths))
    if (changes === 'missing') {
      for (const one of [from, to]) await foundIn(archives, one, '')
      throw pageNotFound()
    }
    const [before, after] = [await manifestOf(from), await manifestOf(to)]
    return {
      files: (['changed', 'added', 'removed'] as const).map((kind) => listPaths(changes, kind)),
      fields: before && after ? compareFields(before, after).slice(0, maxFields) : null,
    }
  }

  async function manifestOf(version: DescribedVersion): Promise<JsonObject | null> {
    const file = (await foundIn(archives, version, 'composer.json'))?.file
    const bytes = file && (await readingArchive(() => archives.read(version.sha256, file, maxManifestBytes)))
    // Every published composer.json is a JSON object. Uploads without one are rejected.
    const manifest: unknown = bytes ? JSON.parse(bytes.toString('utf8')) : null
    return isJsonObject(manifest) ? manifest : null
  }
}

function listPaths(changes: ChangedFiles, kind: keyof ChangedFiles) {
  const titles = { added: 'Added', removed: 'Removed', changed: 'Changed' }
  return { title: titles[kind], kind, ...changes[kind] }
}

function compareFields(before: JsonObject, after: JsonObject): ChangedField[] {
  const [old, current] = [flatten(before), flatten(after)]
  const fields = [...new Set([...old.keys(), ...current.keys()])]
  return fields.flatMap((field) => {
    const [was, is] = [old.get(field) ?? null, current.get(field) ?? null]
    return was === is ? [] : [{ field, before: shorten(was), after: shorten(is) }]
  })
}

/** Returns the values of the first two levels as JSON, by their paths. */
function flatten(manifest: JsonObject): Map<string, string> {
  const fields = Object.entries(manifest).flatMap(([key, value]): [string, Json][] =>
    isJsonObject(value) && Object.keys(value).length > 0
      ? Object.entries(value).map(([inner, of]) => [`${key}.${inner}`, of])
      : [[key, value]],
  )
  return new Map(fields.map(([field, value]) => [field, JSON.stringify(value)]))
}

function shorten(json: string | null): string | null {
  return json !== null && json.length > maxValueCharacters ? `${json.slice(0, maxValueCharacters)}…` : json
}
