import type { AppContext } from '../context.ts'
import { retriedTransaction } from '../database/retried-transaction.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { insertEvent } from '../events/events.ts'
import type { UpstreamChange } from './configure.ts'
import { renderMirror } from './store-documents.ts'
import { allowHeldVersions, findMirror } from './tables/held-versions.ts'

/** How many versions an event names. */
const maxNamed = 50

/** Versions of a mirrored package that wait for the minimum age. */
export interface WaitingVersions {
  packageName: string
  /** Null for all of them. */
  version: string | null
}

/**
 * Offers versions of a mirrored package before they have the minimum age (UPSTREAMS 12): one version, or all that are held
 * back now. If the upstream later has another archive for one of them, that archive waits again. Returns the versions.
 * Throws errcode 5 when no upstream serves the package, and 9 when no such version is held back.
 */
export async function allowEarly(
  { config, db }: AppContext,
  { repositoryId, by }: UpstreamChange,
  { packageName, version }: WaitingVersions,
): Promise<string[]> {
  return retriedTransaction(db, async (tx) => {
    const found = await findMirror(tx, repositoryId, packageName)
    if (!found) throw new Refusal(errcode.notFound, `no upstream serves ${packageName}`)
    const render = async () => {
      for (const isDev of [false, true]) await renderMirror(tx, found.id, isDev, config.baseUrl)
    }
    // The stored lists may be older than the rules. It also locks the package.
    await render()
    const allowed = await allowHeldVersions(tx, found.id, version)
    if (allowed.length === 0) {
      const what = version === null ? `no version of ${packageName}` : `${packageName} ${version}`
      throw new Refusal(
        errcode.failedPrecondition,
        `${what} is ${version === null ? '' : 'not '}held back by the minimum age`,
      )
    }
    await render()
    const details = {
      upstream: found.upstream,
      versions: allowed.slice(0, maxNamed),
      count: allowed.length,
    }
    await insertEvent(tx, by, { repositoryId, packageName, version, action: 'allow-versions', details })
    return allowed
  })
}
