import type { ReceivedArchive } from '../../../archives/archive-store.ts'
import type { CheckedZip } from '../../../archives/check-zip.ts'
import type { Manifest } from '../../../composer/composer-json.ts'
import { readVersion } from '../../../composer/composer-version.ts'
import { parseManifest } from '../../../composer/manifest-json.ts'
import { readPackageName } from '../../../composer/package-name.ts'
import type { Queryable } from '../../../database/database.ts'
import { formatSize, formatTime } from '../../../domain/formats.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { checkManifest, type PublishTarget, settleRepeat } from '../../../packages/publish.ts'
import { type FullUploads, maxUploads } from '../../../packages/tables/browser-uploads.ts'
import { findTakenVersion } from '../../../packages/tables/versions.ts'
import { refuseMirroredVendor } from '../../../upstreams/claims.ts'

/** The result of checking an upload: what would be published, or why it cannot be. */
export interface Preview {
  /** The version that the person chose, or a suggestion from composer.json or the file name. '' without one. */
  version: string
  packageName: string | null
  checked: CheckedZip
  /** Null without a valid name and version. */
  target: PublishTarget | null
  manifest: Manifest | null
  problem: Refusal | null
  /** Whether the same bytes are already published. */
  isRepeated: boolean
}

/** The reason why an archive or a version is rejected, with help. */
export interface UploadProblem {
  message: string
  details: readonly string[]
}

/** Returns what would be published. `addProblems` adds problems that depend on published packages. */
export function previewOf(
  repositoryId: string,
  checked: CheckedZip,
  asked: { version: string; fileName: string },
): Preview {
  const own = readOwnNames(checked.manifest)
  const version = asked.version || own.version || versionIn(asked.fileName)
  const preview: Preview = {
    version,
    packageName: own.name,
    checked,
    target: null,
    manifest: null,
    problem: null,
    isRepeated: false,
  }
  return refusing(preview, () => {
    const packageName = readPackageName(own.name ?? '')
    if (version === '') return { ...preview, packageName }
    const target = { repositoryId, packageName, version: readVersion(version) }
    return { ...preview, packageName, target, manifest: checkManifest(checked, target) }
  })
}

/** Adds problems of the repository: the version exists already, or the vendor comes from an upstream. */
export async function addProblems(
  db: Queryable,
  preview: Preview,
  archive: ReceivedArchive,
): Promise<Preview> {
  if (!preview.target) return preview
  const { repositoryId, packageName, version } = preview.target
  try {
    await refuseMirroredVendor(db, repositoryId, packageName)
    const taken = await findTakenVersion(db, repositoryId, packageName, version.normalized)
    if (!taken) return preview
    return refusing(preview, () => ({
      ...preview,
      isRepeated: settleRepeat(taken, { version, archive }) === 'repeated',
    }))
  } catch (error) {
    return withProblem(preview, error)
  }
}

/** Returns a refusal as the pages show it. */
export function problemOf({ errmsg, sentence, warning, details }: Refusal): UploadProblem {
  // `details` may contain the warning too.
  const help = [...new Set([...(warning ? [warning] : []), ...details])]
  // The protocol's text for a program repeats the value. The details say what is wrong with it.
  const isForPrograms = errmsg.startsWith('validate [') && help.length > 0
  return { message: isForPrograms ? 'This cannot be published:' : sentence, details: help }
}

function refusing(preview: Preview, check: () => Preview): Preview {
  try {
    return check()
  } catch (error) {
    return withProblem(preview, error)
  }
}

function withProblem(preview: Preview, error: unknown): Preview {
  if (error instanceof Refusal) return { ...preview, problem: error }
  throw error
}

/** Returns the name and version in a composer.json. */
function readOwnNames(bytes: Buffer): { name: string | null; version: string } {
  try {
    const { name, version } = parseManifest(bytes).manifest
    return {
      name: typeof name === 'string' ? name : null,
      version: typeof version === 'string' ? version : '',
    }
  } catch (error) {
    // The check of the manifest reports this mistake.
    if (!(error instanceof Refusal)) throw error
    return { name: null, version: '' }
  }
}

/** Returns the version in a file name such as `acme-lib-1.2.0.zip`; '' without one. */
function versionIn(fileName: string): string {
  return /(?:^|[-_v])(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+?)?)\.zip$/i.exec(fileName)?.[1] ?? ''
}

/** Says which limit of uploads is reached, and what makes room. */
export function describeFull({ limit, freeAt }: FullUploads, maxBytes: number): string {
  const time = formatTime(freeAt)
  return limit === 'number'
    ? `You have ${maxUploads} uploads that are not published, which is the limit. Publish or discard one, or wait until ${time}.`
    : `Your uploads that are not published may have at most ${formatSize(maxBytes)} within 12 hours, and discarded ones count too. Publish one, or wait until ${time}.`
}
