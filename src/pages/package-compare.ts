import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { AppContext } from '../context.ts'
import { readQuery, text } from '../http/forms.ts'
import { nobody, page } from '../http/pages.ts'
import { type ArchiveBrowser, type ChangedFiles, compareFiles } from '../registry/archives/archive-files.ts'
import {
  isJsonObject,
  type Json,
  type JsonObject,
  maxManifestBytes,
} from '../registry/manifest/manifest-json.ts'
import {
  type DescribedVersion,
  type ListedVersion,
  listVersions,
} from '../registry/tables/listed-versions.ts'
import { filesOf } from './package-files.ts'
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
import { may } from './permit.ts'

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

const comparePage = page<
  PackageView & {
    offered: ListedVersion[]
    /** The chosen versions. `from` is the first offer when there is no older version, and null when it is the only one. */
    chosen: { from: string | null; to: string }
    /** Null when there is no version to compare with. */
    compared: {
      from: DescribedVersion
      to: DescribedVersion
      files: { title: string; kind: 'added' | 'removed' | 'changed'; paths: string[]; left: number }[]
      /** Null when a composer.json cannot be read. */
      fields: ChangedField[] | null
    } | null
  }
>('pages/compare')

const CompareQuery = z.object({ from: text, to: text })

/** `…/-/compare?from=&to=`: the files and the values of composer.json that differ between two versions. */
export async function compareRoutes(
  app: FastifyInstance,
  context: AppContext & { archives: ArchiveBrowser },
): Promise<void> {
  const { db, archives } = context

  app.get<PackageRoute>(`${packagePath}/-/compare`, async (request, reply) => {
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
      compared: from && { from, to, ...(await compare(from, to)) },
    })
  })

  async function compare(from: DescribedVersion, to: DescribedVersion) {
    const changes = await compareFiles(await filesOf(archives, from), await filesOf(archives, to))
    const [before, after] = [await manifestOf(from), await manifestOf(to)]
    return {
      files: (['changed', 'added', 'removed'] as const).map((kind) => listPaths(changes, kind)),
      fields: before && after ? compareFields(before, after).slice(0, maxFields) : null,
    }
  }

  async function manifestOf(version: DescribedVersion): Promise<JsonObject | null> {
    const file = (await filesOf(archives, version)).find(({ path }) => path === 'composer.json')
    const bytes = file && (await readingArchive(() => archives.read(version.sha256, file, maxManifestBytes)))
    // Every published composer.json is a JSON object. Uploads without one are rejected.
    const manifest: unknown = bytes ? JSON.parse(bytes.toString('utf8')) : null
    return isJsonObject(manifest) ? manifest : null
  }
}

function listPaths(changes: ChangedFiles, kind: keyof ChangedFiles) {
  const titles = { added: 'Added', removed: 'Removed', changed: 'Changed' }
  const paths = changes[kind]
  return {
    title: titles[kind],
    kind,
    paths: paths.slice(0, maxPaths),
    left: Math.max(paths.length - maxPaths, 0),
  }
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
