import { setTimeout as sleep } from 'node:timers/promises'
import { isPackageName } from '../composer/package-name.ts'
import { transaction } from '../database/database.ts'
import { shareStatements } from '../database/shared-statements.ts'
import type { StoredDocument } from '../documents/stored-documents.ts'
import type { Log } from '../domain/log.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { singleFlight } from '../domain/single-flight.ts'
import {
  type CheckContext,
  type Checked,
  checkContextOf,
  checkDocument,
  type MirrorContext,
} from './check-document.ts'
import { requestPackage } from './configure.ts'
import { openEarlierUpstreams } from './contested-names.ts'
import { renderMirror } from './store-documents.ts'
import {
  type FoundMirror,
  listFoundMirrors,
  noteUse,
  type WantedMirror,
} from './tables/mirrored-documents.ts'
import type { DocumentKey } from './tables/upstream-documents.ts'
import { openUnknownNames } from './unknown-names.ts'

/** How long a first request waits for an upstream. */
const patienceMilliseconds = 20_000
const pollMilliseconds = 50

/** A document of a mirrored package for a response. */
export interface MirrorDocument {
  document: StoredDocument
  /** A warning that the upstream fails and the document is old. Null when the upstream works. */
  warning: string | null
}

/**
 * A package that is not offered until an admin decides which upstream serves it. The response is a document without
 * versions. A "not found" would send Composer to other repositories, which may have what is hidden here.
 */
export interface HiddenDocument {
  isHidden: true
  warning: string
}

/** Serves the packages of upstreams (UPSTREAMS 1, 5–8). */
export interface Mirror {
  /**
   * Returns the document of a package that the repository itself does not have. Null when no upstream has the package,
   * or none may offer it. Throws errcode 14 with Retry-After when an upstream fails and no document is stored. A "not
   * found" would be wrong, because it would send Composer to other repositories. Throws errcode 8 when the author has
   * requested too many names that no upstream has. `found` is the state of the document, if the request has read it.
   */
  findDocument: (
    wanted: WantedMirror,
    by: Principal,
    found?: FoundMirror,
  ) => Promise<MirrorDocument | HiddenDocument | null>
  /** Checks the upstream of a package again, unless a check is running. */
  refresh: (upstreamId: string, packageName: string, isDev: boolean) => Promise<void>
  /** Resolves when no check runs in the background. Checks no longer wait for those of other processes. */
  close: () => Promise<void>
}

/** Opens the mirror of a process. Requests for one document share one check, also between processes. */
export function openMirror(given: MirrorContext, log: Log): Mirror {
  const context = checkContextOf(given)
  const { noteServed = () => {} } = given
  const { db, freshSeconds } = context
  const { baseUrl } = given.config
  const checks = singleFlight<Checked>()
  const unknownNames = openUnknownNames()
  const searches = singleFlight<Checked>()
  let isClosing = false
  const earlierUpstreams = openEarlierUpstreams(context, log)
  const find = shareStatements((wanted: WantedMirror[]) =>
    listFoundMirrors(db, wanted, { baseUrl, freshSeconds }),
  )

  /** Checks one document of one upstream unless it is fresh, or waits for a running check. */
  function ask(upstreamId: string, packageName: string, isDev: boolean): Promise<Checked> {
    return checks.share(`${upstreamId} ${packageName} ${isDev}`, () =>
      checkInTurn(context, { upstreamId, packageName, isDev }, () => isClosing),
    )
  }

  /** Asks the upstream of a name, or searches for the first one that has it. Concurrent requests share a search. */
  async function resolve(found: FoundMirror, wanted: WantedMirror, by: Principal): Promise<Checked> {
    const { upstreamIds, isBound } = found
    const { repositoryId, packageName, isDev } = wanted
    const [first] = upstreamIds
    if (isBound && first !== undefined) return ask(first, packageName, isDev)
    const key = `${upstreamIds.join(',')} ${packageName} ${isDev}`
    if (unknownNames.has(key)) return { outcome: 'missing' }
    return searches.share(key, () => {
      // Throws before the search starts, so only to its own author.
      const giveBack = unknownNames.take(repositoryId, by)
      return searchIn(upstreamIds, packageName, isDev).then((checked) => {
        if (checked.outcome === 'missing') unknownNames.add(key)
        if (checked.outcome === 'found') giveBack()
        return checked
      })
    })
  }

  /**
   * Tries the upstreams in order (UPSTREAMS 1, 7). A failing one ends the search, because the next upstream could have
   * another package of the same name.
   */
  async function searchIn(
    upstreamIds: readonly string[],
    packageName: string,
    isDev: boolean,
  ): Promise<Checked> {
    for (const id of upstreamIds) {
      const checked = await ask(id, packageName, isDev)
      if (checked.outcome !== 'missing' || id === upstreamIds.at(-1)) return checked
      // A package may have only development versions, or only others. In both cases this upstream has the name, and the
      // next one must not be asked.
      const other = await ask(id, packageName, !isDev)
      if (other.outcome === 'found') return { outcome: 'missing' }
      if (other.outcome !== 'missing') return other
    }
    return { outcome: 'missing' }
  }

  /** Checks the upstream of a package again, and asks the upstreams before it whether they have the package by now. */
  function refreshLater({ upstreamIds, packageId }: FoundMirror, { packageName, isDev }: WantedMirror): void {
    const [upstreamId] = upstreamIds
    if (upstreamId === undefined) return
    ask(upstreamId, packageName, isDev).catch((error: unknown) =>
      log.warn({ err: error }, 'a document of an upstream could not be checked'),
    )
    if (packageId !== null) earlierUpstreams.ask({ packageId, packageName })
  }

  async function read(wanted: WantedMirror, given?: FoundMirror): Promise<FoundMirror> {
    const found = given ?? (await find(wanted))
    const { packageId, isDue } = found
    if (!isDue || packageId === null || found.verdict !== 'upstream') return found
    await transaction(db, (tx) => renderMirror(tx, packageId, wanted.isDev, baseUrl))
    return find(wanted)
  }

  async function noteUsed({ isUnusedToday, packageId }: FoundMirror, result: 'hit' | 'miss'): Promise<void> {
    noteServed(result)
    if (isUnusedToday && packageId !== null) await noteUse(db, packageId)
  }

  return {
    async findDocument(wanted, by, given) {
      // Send no other names to upstreams.
      if (!isPackageName(wanted.packageName)) return null
      let found = await read(wanted, given)
      const result = found.document === null ? 'miss' : 'hit'
      if (found.verdict === 'unapproved') await requestPackage(db, { ...wanted, by }, wanted.packageName)
      if (found.verdict === 'contested') return hidden(wanted)
      if (found.verdict !== 'upstream') return null
      if (found.document === null) {
        const { outcome, saved } = await resolve(found, wanted, by)
        if (outcome === 'failed' || outcome === 'busy') throw unavailable()
        if (outcome === 'missing') return null
        if (saved?.verdict === 'upstream') {
          await noteUsed(found, 'miss')
          return { document: saved.document, warning: null }
        }
        found = await read(wanted)
        if (found.verdict !== 'upstream') return null
      } else if (!found.isFresh && !found.isResting) {
        refreshLater(found, wanted)
      }
      await noteUsed(found, result)
      return found.document && { document: found.document, warning: warningOf(found, wanted) }
    },

    async refresh(upstreamId, packageName, isDev) {
      await ask(upstreamId, packageName, isDev)
    },

    async close() {
      isClosing = true
      await checks.settle()
      await earlierUpstreams.settle()
    },
  }
}

/**
 * Checks a document, or waits for the running check of another process. `busy` means that `isClosing` has ended the wait.
 */
export async function checkInTurn(
  context: CheckContext,
  key: DocumentKey,
  isClosing = () => false,
): Promise<Checked> {
  for (const start = Date.now(); Date.now() - start < patienceMilliseconds; await sleep(pollMilliseconds)) {
    const checked = await checkDocument(context, key)
    // The check of a process that was killed counts as running for up to 45 s. A stop cannot wait for it.
    if (checked.outcome !== 'busy' || isClosing()) return checked
  }
  return { outcome: 'failed' }
}

function warningOf({ failure, failedAt }: FoundMirror, { packageName }: WantedMirror): string | null {
  if (failure === null || failedAt === null) return null
  return `The upstream of ${packageName} has failed since ${failedAt.toISOString()} (${failure}). This is its last known metadata.`
}

function hidden({ packageName }: WantedMirror): HiddenDocument {
  const warning = `${packageName} is not offered now, because two upstreams of this repository have it. An admin of the repository must decide which of them serves it, on the page of its upstreams.`
  return { isHidden: true, warning }
}

function unavailable(): Refusal {
  return new Refusal(errcode.unavailable, 'the upstream is unavailable', {
    warning: 'An upstream of this repository fails. Try again later.',
  })
}
