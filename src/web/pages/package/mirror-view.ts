import type { Session } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { Refusal } from '../../../domain/refusal.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { UpstreamError } from '../../../upstreams/client/upstream-error.ts'
import {
  type DescribedMirror,
  describeMirror,
  type MirrorVersion,
} from '../../../upstreams/describe-mirror.ts'
import type { WantedArchive } from '../../../upstreams/tables/mirrored-archives.ts'
import type { ListedMirror, OriginVerdict } from '../../../upstreams/tables/mirrored-packages.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import type { PagesContext } from '../permit.ts'

/** What a page can show of the archive of a version. */
export type ShownArchive =
  | {
      state: 'stored'
      sha256: string
      size: number
      /** Whether everybody may see it. */
      isPublic: boolean
    }
  /** People can let svc fetch it. */
  | { state: 'absent' }
  | { state: 'none'; why: string }

/** A package of an upstream with the access of one reader. */
export interface MirrorView {
  /** Null when the reader is not signed in. */
  session: Session | null
  repository: VisibleRepository
  name: string
  mirror: ListedMirror
  /** Whether it may come from its upstream. */
  verdict: OriginVerdict
  mayManage: boolean
}

/** Describes the versions of a package. Throws 503 when they cannot be read in time. */
export async function describe(
  { db }: AppContext,
  { repository, mirror }: Pick<MirrorView, 'repository' | 'mirror'>,
  { version = '', from = 0, limit = 0 }: { version?: string; from?: number; limit?: number },
): Promise<DescribedMirror> {
  try {
    const of = { repositoryId: repository.id, name: mirror.name }
    return await describeMirror(db, of, { version: version || null, from, limit })
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error
    throw new PageError(503, `The metadata of ${mirror.name} cannot be read now. Try again later.`)
  }
}

/** Returns the version that a page is about. Throws 404 for an unknown version. Null when the package has none. */
export function shownOf(
  { shown }: DescribedMirror,
  version: string,
): (MirrorVersion & DescribedMirror['shown']) | null {
  if (shown === null && version !== '') throw pageNotFound()
  return shown
}

/** Returns how a download names the archive of a version. */
export function wantedOf(
  { repository, mirror }: MirrorView,
  { versionPath: version, reference, type }: NonNullable<MirrorVersion['archive']>,
): WantedArchive {
  return { repositoryId: repository.id, packageName: mirror.name, version, reference, type }
}

/** Judges the archive of a version by the rules of a download. */
export async function archiveOfMirror(
  { archiveMirror }: PagesContext,
  view: MirrorView,
  { version, archive }: MirrorVersion,
): Promise<ShownArchive> {
  if (archive === null)
    return { state: 'none', why: `Version ${version} has no archive: it only requires other packages.` }
  try {
    const served = await archiveMirror.peek(wantedOf(view, archive))
    if (served === null)
      return {
        state: 'none',
        why: `The archive of ${version} is not stored here, and no upstream may offer it now.`,
      }
    if (archive.type !== 'zip')
      return {
        state: 'none',
        why: `Only zip archives can be shown, and that of ${version} is ${archive.type}.`,
      }
    if (served === 'absent') return { state: 'absent' }
    return { state: 'stored', sha256: served.sha256, size: served.size, isPublic: false }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { state: 'none', why: `${error.explanation} Its files are not shown.` }
  }
}
