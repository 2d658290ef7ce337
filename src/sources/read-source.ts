import type { ReceivedArchive } from '../archives/archive-store.ts'
import { listEmptyFolders } from '../archives/archive-tree.ts'
import { checkUpload } from '../archives/check-upload.ts'
import type { CheckedZip } from '../archives/check-zip.ts'
import { discardArchive, receiveArchive } from '../archives/local-store.ts'
import { openOwnStore } from '../archives/store-owner.ts'
import type { Manifest } from '../composer/composer-json.ts'
import {
  compareNormalized,
  isSemver,
  normalizeVersion,
  type PublishedVersion,
  readBranch,
  readVersion,
} from '../composer/composer-version.ts'
import { parseManifest, refuseManifest, shown } from '../composer/manifest-json.ts'
import { isPackageName, toLowerAscii } from '../composer/package-name.ts'
import { matchesGlob } from '../domain/glob.ts'
import { cleanLine } from '../domain/plain-text.ts'
import { background, type Principal } from '../domain/principal.ts'
import { errcode, isOfServer, Refusal } from '../domain/refusal.ts'
import { insertEvent } from '../events/events.ts'
import { openStorageRoom } from '../groups/storage-room.ts'
import { enqueueNew, type Job, type JobContext } from '../jobs/job.ts'
import { openOutbound } from '../outbound/outbound.ts'
import { deleteVersion, restoreVersion } from '../packages/lifecycle/deletion.ts'
import {
  checkManifest,
  type PublishContext,
  type Published,
  type PublishTarget,
  publishArchive,
} from '../packages/publish.ts'
import { openReadmeRenderer } from '../packages/readmes/render-readme.ts'
import { isRetired } from '../packages/tables/retention.ts'
import { findTakenVersion } from '../packages/tables/versions.ts'
import { type Git, GitError, type RemoteRef, type Resolved, removeAbandoned, withGit } from './git.ts'
import {
  assignToSource,
  deleteRefs,
  keyOfRef,
  listAllRefs,
  newRef,
  type SourceRef,
  saveRefs,
} from './source-refs.ts'
import { readSourceUrl } from './source-url.ts'
import {
  describeFailure,
  findSource,
  findSourceSecrets,
  noteFailure,
  noteLook,
  type Source,
  sourceJob,
  takeDueSources,
} from './sources.ts'

const dueSeconds = 60
const dueAtOnce = 500
/** How many sources one process reads at once. */
const concurrency = 4
/** How long the reading of one source takes at most. The next one goes on where it stopped. */
const readMilliseconds = 60 * 60_000
/** More tags and branches must be narrowed by patterns. */
const maxRefs = 10_000
/** Longer names are no versions. */
const maxRefName = 240
const maxReason = 1000
/** How many objects one fetch asks for. */
const fetchedAtOnce = 50
const maxWarnings = 10

/** Queues the reading of each source whose time has come, and removes what killed processes have left. */
export const readDueSourcesJob: Job = {
  name: 'read-due-sources',
  everySeconds: dueSeconds,
  async run({ config, db }) {
    await removeAbandoned(config)
    const ids = await takeDueSources(db, dueAtOnce)
    await enqueueNew(
      db,
      ids.map((sourceId) => ({ job: sourceJob, data: { sourceId } })),
    )
  },
}

/**
 * Reads a source: lists its tags and branches, fetches the commits that it does not know, and publishes each as an upload.
 * A failure of the Git server is stored with the source, and the next reading tries again.
 */
export const readSourceJob: Job<{ sourceId: string }> = {
  ...sourceJob,
  concurrency,
  hasOwnSlots: true,
  async run(context, { sourceId }, signal) {
    const { config, db } = context
    const source = await findSource(db, sourceId)
    if (!source?.isConfirmed) return
    const outbound = openOutbound(config)
    const readmes = openReadmeRenderer()
    try {
      const secrets = await findSourceSecrets(context, sourceId)
      if (secrets === null) {
        const failure =
          'the server has lost the key of its secrets: restore SECRET_KEY, or add the source again'
        return await noteFailure(db, actingAs(source), source, failure)
      }
      const archives = await openOwnStore(db, config)
      const reading: Reading = {
        ...context,
        changes: db,
        readmes,
        archives,
        room: openStorageRoom(context),
        source,
        signal: AbortSignal.any([signal, AbortSignal.timeout(readMilliseconds)]),
      }
      const remote = {
        ...readSourceUrl(source.url, { allowsHttp: true }),
        ...secrets,
        hostKeys: source.hostKeys,
        reachesPrivateHosts: source.reachesPrivateHosts,
      }
      await withGit({ config, outbound }, remote, reading.signal, (git) => readAll(reading, git))
      await noteLook(db, sourceId)
    } catch (error) {
      signal.throwIfAborted()
      const isOver = error instanceof DOMException && error.name === 'TimeoutError'
      const failure = isOver ? 'the reading took too long: the next one goes on' : describeFailure(error)
      if (failure === null) throw error
      await noteFailure(db, actingAs(source), source, failure)
    } finally {
      await readmes.close()
      await outbound.close()
    }
  },
}

/** What the reading of a source needs. */
interface Reading extends JobContext, PublishContext {
  source: Source
  signal: AbortSignal
}

/** A tag or branch whose commit is fetched and published. */
interface WantedRef {
  remote: RemoteRef
  known: SourceRef | undefined
  version: PublishedVersion
  isDefault: boolean
}

/** What is behind the fetched objects, by id. The error when they could not be fetched together. */
type Fetched = Map<string, Resolved> | GitError

/** What is stored about a tag or branch. */
type Outcome = Omit<SourceRef, 'changedAt'>

async function readAll(reading: Reading, git: Git): Promise<void> {
  const { db, source } = reading
  const { refs, defaultBranch } = await git.listRefs()
  const known = new Map((await listAllRefs(db, source.id)).map((ref) => [keyOfRef(ref), ref]))
  if (refs.length === 0 && known.size > 0)
    throw new GitError('remote', 'it has no tags and branches any more')
  const chosen = refs.filter(({ kind, name }) =>
    matchesGlob(kind === 'tag' ? source.tags : source.branches, name),
  )
  if (chosen.length > maxRefs) {
    const message = `it has more than ${maxRefs} tags and branches: choose some with patterns`
    throw new GitError('remote', message)
  }
  const wanted: WantedRef[] = []
  const settled: Outcome[] = []
  for (const remote of chosen) {
    const ref = known.get(keyOfRef(remote))
    const isDefault = remote.kind === 'branch' && remote.name === defaultBranch
    if (ref && isKnown(ref, remote, isDefault)) continue
    const judged = judge(remote, ref, isDefault)
    if ('version' in judged) wanted.push({ remote, known: ref, version: judged.version, isDefault })
    else settled.push(judged.outcome)
  }
  await saveRefs(db, source.id, settled)
  for (const outcome of settled) if (outcome.state === 'moved') await noteMoved(reading, outcome)
  await publishAll(reading, git, wanted)
  const there = new Set(refs.map(keyOfRef))
  const gone = [...known]
    .filter(([key, { state }]) => state !== 'gone' && !there.has(key))
    .map(([, ref]) => ref)
  await deleteRefs(
    db,
    source.id,
    gone.filter(({ commit }) => commit === null),
  )
  for (const ref of gone) if (ref.commit !== null) await noteGone(reading, ref)
}

/** Returns whether a tag or branch was judged at its commit. */
function isKnown(known: SourceRef, { commit }: RemoteRef, isDefault: boolean): boolean {
  return (
    known.seenCommit === commit && known.state !== 'gone' && (known.isDefault === isDefault || !known.commit)
  )
}

/** Returns the version of a tag or branch whose commit has to be fetched. Otherwise returns what becomes of it without that. */
function judge(
  { kind, name, commit }: RemoteRef,
  known: SourceRef | undefined,
  isDefault: boolean,
): { version: PublishedVersion } | { outcome: Outcome } {
  const outcome: Outcome = {
    ...(known ?? newRef),
    kind,
    name,
    seenCommit: commit,
    isDefault,
    reason: null,
    warnings: [],
  }
  const version = name.length > maxRefName ? null : kind === 'tag' ? versionOfTag(name) : readBranch(name)
  if (version === null) {
    const reason = kind === 'tag' ? reasonAgainstTag(name) : 'its name cannot be part of a version'
    return { outcome: { ...outcome, state: 'skipped', reason } }
  }
  if (kind === 'branch' || !known?.commit) return { version }
  // The commit of a version never changes. A tag that was moved may be back.
  if (known.commit === commit)
    return { outcome: { ...outcome, state: known.stageId === null ? 'published' : 'staged' } }
  const reason = `it was moved from commit ${known.commit.slice(0, 10)} to ${commit.slice(0, 10)}: a published version never changes, so make a new tag`
  return { outcome: { ...outcome, state: 'moved', reason } }
}

/** Returns the version of a tag, without `release-` and `v`. Null when it is no strict SemVer. */
function versionOfTag(name: string): PublishedVersion | null {
  const version = withoutPrefix(name)
  return isSemver(version) ? readVersion(version) : null
}

function withoutPrefix(tag: string): string {
  return tag.replace(/^release-/, '').replace(/^v/i, '')
}

/** Returns why a tag is no version, with the Semantic Version that Composer reads in the same way, such as 1.2.0 for 1.2. */
function reasonAgainstTag(name: string): string {
  const normalized = name.length > maxRefName ? null : normalizeVersion(withoutPrefix(name))
  const [, release, prerelease = ''] = /^(\d+\.\d+\.\d+)\.0(-.+)?$/.exec(normalized ?? '') ?? []
  const same = `${release}${prerelease}`
  return isSemver(same)
    ? `its name is no Semantic Version: tag the commit as ${same}, too`
    : 'its name is no version such as 1.0.0'
}

/** Publishes tags in the order of their versions, and then branches. What it has done stays when it is aborted. */
async function publishAll(reading: Reading, git: Git, wanted: readonly WantedRef[]): Promise<void> {
  const { db, source, signal } = reading
  const ordered = [...wanted].sort(
    (one, other) =>
      Number(one.remote.kind === 'branch') - Number(other.remote.kind === 'branch') ||
      compareNormalized(one.version.normalized, other.version.normalized),
  )
  for (let start = 0; start < ordered.length; start += fetchedAtOnce) {
    const batch = ordered.slice(start, start + fetchedAtOnce)
    const fetched = await fetchAll(git, batch, source.path)
    for (const ref of batch) {
      signal.throwIfAborted()
      // One that Git refuses must not stop the others. A failed fetch leaves nothing of earlier ones.
      const own = fetched instanceof GitError ? await fetchAll(git, [ref], source.path) : fetched
      const outcome = await publishRef(reading, git, ref, own)
      await saveRefs(db, source.id, [outcome])
    }
  }
}

/** Fetches the objects of tags and branches, and finds what is behind each. */
async function fetchAll(git: Git, refs: readonly WantedRef[], folder: string): Promise<Fetched> {
  const ids = [...new Set(refs.map(({ remote }) => remote.objectId))]
  try {
    await git.fetch(ids)
    return await git.resolve(ids, folder)
  } catch (error) {
    if (error instanceof GitError && error.failure !== 'remote') return error
    throw error
  }
}

function isOfObjects(error: unknown): error is GitError {
  return error instanceof GitError && (error.failure === 'objects' || error.failure === 'missing')
}

/** Publishes the version of a fetched tag or branch. Returns what became of it. */
async function publishRef(reading: Reading, git: Git, wanted: WantedRef, fetched: Fetched): Promise<Outcome> {
  const { remote, known = newRef, isDefault } = wanted
  const { kind, name } = remote
  // A stage that was not released is over.
  const stageId = known.commit === null ? null : known.stageId
  const former = { ...known, kind, name, seenCommit: remote.commit, isDefault, warnings: [], stageId }
  try {
    if (fetched instanceof GitError) throw fetched
    const { commit = null, tree = null } = fetched.get(remote.objectId) ?? {}
    if (commit === null) throw new GitError('missing', 'it is no commit')
    if (tree === null) throw new GitError('missing', `there is no folder ${reading.source.path}`)
    if (commit !== remote.commit)
      throw new GitError('objects', 'the server lists another commit than it sends')
    // A commit that changes nothing in the folder needs no new archive.
    const isSame = known.commit !== null && known.tree === tree && known.isDefault === isDefault
    if (isSame && known.state !== 'gone')
      return { ...former, state: known.state === 'staged' ? 'staged' : 'published', reason: null }
    return { ...former, ...(await publishTree(reading, git, wanted, { commit, tree })) }
  } catch (error) {
    const reason = reasonOf(error)
    if (reason === null) throw error
    return { ...former, isDefault: known.isDefault, state: 'refused', reason: reason.slice(0, maxReason) }
  }
}

/** Packs a tree, judges the archive as an upload of a stranger, and publishes it. Throws Refusal and GitError. */
async function publishTree(
  reading: Reading,
  git: Git,
  wanted: WantedRef,
  { commit, tree }: { commit: string; tree: string },
): Promise<Omit<Outcome, 'kind' | 'name' | 'seenCommit' | 'isDefault'>> {
  const { config, db, archives, room, source } = reading
  const { version, remote, known, isDefault } = wanted
  await room.requireDatabaseRoom()
  const archive = await git.archive(source.path === '' ? commit : tree, (bytes) =>
    receiveArchive(archives, bytes, { maxBytes: config.maxArchiveBytes }),
  )
  try {
    const zip = await checkUpload(archive.path)
    const submodules = await checkFiles(git, tree, zip)
    const packageName = nameIn(zip)
    const { metadata, warnings } = checkManifest(zip, { packageName, version })
    if (!(await assignToSource(db, source.id, packageName)))
      throw refusal(
        `another source publishes ${packageName}`,
        'Change the name in composer.json, or remove that source.',
      )
    const target = { repositoryId: source.repositoryId, packageName, version }
    const by = actingAs(source, { ref: refOf(remote), commit })
    if (known && (known.state === 'gone' || (await isRetired(db, { ...target, version: version.version }))))
      await bringBack(reading, known, by)
    const manifest = {
      metadata: {
        ...metadata,
        ...(!source.hidesSource && { source: { type: 'git', url: source.url, reference: commit } }),
        ...(isDefault && { 'default-branch': true }),
      },
      warnings: [],
    }
    const published = await publishOnce(reading, target, archive, { zip, manifest, by, commit })
    const stageId = published.outcome === 'staged' ? published.stage.id : null
    return {
      state: published.outcome === 'staged' ? 'staged' : 'published',
      reason: null,
      warnings: [...submodules, ...warnings].slice(0, maxWarnings),
      commit: remote.commit,
      tree,
      packageName,
      version: version.version,
      stageId,
    }
  } finally {
    await discardArchive(archive)
  }
}

/** Publishes an archive. Git packs a commit in another way after an upgrade: the version of the same commit stays as it is. */
async function publishOnce(
  reading: Reading,
  target: PublishTarget,
  archive: ReceivedArchive,
  { commit, ...checked }: { zip: CheckedZip; manifest: Manifest; by: Principal; commit: string },
): Promise<Published> {
  try {
    return await publishArchive(reading, target, archive, checked)
  } catch (error) {
    if (!(error instanceof Refusal) || error.errcode !== errcode.alreadyExists) throw error
    const { repositoryId, packageName, version } = target
    const taken = await findTakenVersion(reading.db, repositoryId, packageName, version.normalized)
    if (taken?.version === version.version && taken.commit === commit && !taken.isDeleted)
      return { outcome: 'repeated' }
    throw error
  }
}

/**
 * Refuses pointers of Git LFS: git archive packs them in the place of the files. Returns warnings about submodules, in whose
 * place it packs empty folders.
 */
async function checkFiles(git: Git, tree: string, zip: CheckedZip): Promise<string[]> {
  if (zip.manifestPath !== 'composer.json')
    throw refusal(
      'there is no composer.json in the root',
      'If the package is in a folder, the source must name it.',
    )
  if (zip.lfsPointer !== null)
    throw refusal(
      `${cleanLine(zip.lfsPointer)} is a pointer of Git LFS`,
      'Archives have no files of Git LFS: exclude it with export-ignore in .gitattributes, or store the file in Git.',
    )
  const empty = listEmptyFolders(zip.packedTree)
  const submodules = empty.length === 0 ? [] : await git.findSubmodules(tree, empty)
  return submodules.map((path) => `the submodule ${cleanLine(path)} is not in the archive`)
}

function nameIn({ manifest }: CheckedZip): string {
  const { name } = parseManifest(manifest).manifest
  const lower = typeof name === 'string' ? toLowerAscii(name) : ''
  if (isPackageName(lower)) return lower
  const wrong = typeof name === 'string' ? `, not "${shown(name)}"` : ''
  refuseManifest('name', `must be the name of a package, such as acme/lib${wrong}`)
}

/** Stores that a tag or branch with a version is not there any more. The version of a branch is deleted, that of a tag stays. */
async function noteGone({ db, config, source }: Reading, known: SourceRef): Promise<void> {
  const { kind, packageName, version } = known
  if (kind === 'branch' && packageName !== null && version !== null) {
    const { repositoryId } = source
    const by = actingAs(source)
    await ignoreRefusal(
      deleteVersion(db, { repositoryId, packageName, version, by, baseUrl: config.baseUrl }),
    )
  }
  await saveRefs(db, source.id, [{ ...known, state: 'gone', reason: null, warnings: [] }])
}

/** Restores the version of a branch that is there again, or has a new commit after a retention rule had deleted its version. */
async function bringBack({ db, config, source }: Reading, known: SourceRef, by: Principal): Promise<void> {
  const { packageName, version } = known
  if (known.kind !== 'branch' || packageName === null || version === null) return
  const { repositoryId } = source
  await ignoreRefusal(restoreVersion(db, { repositoryId, packageName, version, by, baseUrl: config.baseUrl }))
}

/** Waits for work that may not be possible any more: somebody else has done it. */
async function ignoreRefusal(work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error
  })
}

async function noteMoved(
  { db, source }: Reading,
  { name, packageName, version, commit, seenCommit }: Outcome,
): Promise<void> {
  await insertEvent(db, actingAs(source), {
    action: 'refuse-tag',
    repositoryId: source.repositoryId,
    packageName,
    version,
    details: { source: Number(source.id), tag: name, commit: seenCommit, published_commit: commit },
  })
}

/** Returns why a tag or branch is no version. Null for an error that is not about it, such as a full disk. */
function reasonOf(error: unknown): string | null {
  if (isOfObjects(error)) return error.message
  if (!(error instanceof Refusal) || isOfServer(error)) return null
  const { errmsg, warning, details } = error
  return [errmsg, ...(warning === undefined ? details.slice(0, 1) : [warning])].join('. ')
}

function refOf({ kind, name }: RemoteRef): string {
  return `refs/${kind === 'tag' ? 'tags' : 'heads'}/${name}`
}

/** Returns a source as the one who acts. */
function actingAs({ id, url }: Source, at: { ref: string; commit: string } | null = null): Principal {
  const run = at && { provider: 'git', project: url, workflow: null, url: null, ...at }
  return { ...background, token: { kind: 'source', tokenId: id, authorizationId: null, run } }
}

function refusal(errmsg: string, warning: string): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg, { warning })
}
