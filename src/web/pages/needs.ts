import { formatCount, formatSize } from '../../domain/formats.ts'
import type { TroubledSources } from '../../sources/sources.ts'
import type { WaitingDecisions } from '../../upstreams/tables/waiting-decisions.ts'
import type { SystemState } from '../server/system-state.ts'

/** A thing that waits for a person, with the page on which it is done. */
export interface Need {
  words: string
  url: string
}

/** Returns what the decisions about packages of upstreams need. */
export function needsOf({ path, requests, changed, contested }: WaitingDecisions): Need[] {
  const url = `/${path}/-/upstreams`
  return [
    requests > 0 && {
      words: `${formatCount(requests, 'package')} of ${path} ${requests === 1 ? 'waits' : 'wait'} for approval`,
      url,
    },
    changed > 0 && {
      words: `${formatCount(changed, 'package')} of ${path} ${changed === 1 ? 'has' : 'have'} an archive that changed at the upstream`,
      url,
    },
    contested > 0 && {
      words: `${formatCount(contested, 'package')} of ${path} ${contested === 1 ? 'is' : 'are'} in two upstreams: choose one`,
      url,
    },
  ].filter((need) => need !== false)
}

/** Returns what the Git sources of a repository need. */
export function needsOfSources({ path, failing, unconfirmed }: TroubledSources): Need[] {
  const url = `/${path}/-/sources`
  return [
    failing > 0 && { words: `${formatCount(failing, 'Git source')} of ${path} cannot be read`, url },
    unconfirmed > 0 && {
      words: `${formatCount(unconfirmed, 'Git source')} of ${path} ${unconfirmed === 1 ? 'waits' : 'wait'} until somebody confirms the key of the SSH server`,
      url,
    },
  ].filter((need) => need !== false)
}

/** Returns what the applications need that wait for the administrators of the site. */
export function needsOfApplications(pending: number): Need[] {
  if (pending === 0) return []
  const words = `${formatCount(pending, 'application')} ${pending === 1 ? 'waits' : 'wait'} for review`
  return [{ words, url: '/admin/applications?state=pending' }]
}

/** Returns what the client metadata documents need that wait for the administrators of the site. */
function needsOfDocuments(waiting: number): Need[] {
  if (waiting === 0) return []
  const words = `${formatCount(waiting, 'client metadata document')} ${waiting === 1 ? 'waits' : 'wait'} for review`
  return [{ words, url: '/admin/applications/documents' }]
}

/** The share of the disk that must be free. */
const minFreeShare = 0.1
const maxBackupAgeDays = 7

/** Returns what waits for the administrators of the site. */
export function needsOfSite(
  { store, jobs, disk, backedUpAt }: SystemState,
  { pendingApplications, waitingDocuments }: { pendingApplications: number; waitingDocuments: number },
  accountsWithoutFactor: number,
  decisions: readonly WaitingDecisions[],
): Need[] {
  const failed = jobs.reduce((sum, job) => sum + job.failed, 0)
  const backupAge = backedUpAt && Math.floor((Date.now() - backedUpAt.getTime()) / 86_400_000)
  const url = '/admin/system'
  return [
    ...needsOfApplications(pendingApplications),
    ...needsOfDocuments(waitingDocuments),
    accountsWithoutFactor > 0 && {
      words: `${formatCount(accountsWithoutFactor, 'account')} ${accountsWithoutFactor === 1 ? 'has' : 'have'} no second factor`,
      url: '/admin/accounts?state=without-second-factor',
    },
    failed > 0 && {
      words: `${formatCount(failed, 'background job')} ${failed === 1 ? 'has' : 'have'} failed`,
      url,
    },
    store.problems > 0 && {
      words: `${formatCount(store.problems, 'archive')} ${store.problems === 1 ? 'is' : 'are'} damaged or missing`,
      url,
    },
    store.unclaimed !== null && { words: 'This database has no claim on its archives', url },
    disk !== null &&
      disk.freeBytes < disk.allBytes * minFreeShare && {
        words: `The disk is almost full: ${formatSize(disk.freeBytes)} of ${formatSize(disk.allBytes)} are free`,
        url,
      },
    backupAge !== null &&
      backupAge > maxBackupAgeDays && { words: `The last svc backup is ${backupAge} days old`, url },
    ...decisions.flatMap(needsOf),
  ].filter((need) => need !== false)
}
