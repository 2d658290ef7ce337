import type pg from 'pg'
import { isPackageName } from '../composer/package-name.ts'
import type { AppContext } from '../context.ts'
import { transaction } from '../database/database.ts'
import { brokenConstraint } from '../database/errors.ts'
import { describeRule } from '../database/rules.ts'
import { noteListingChange } from '../documents/listing.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { isHostAndPort } from '../domain/setting-formats.ts'
import { detailsOfChange, insertEvent } from '../events/events.ts'
import { requireBelowLimit } from '../groups/limits.ts'
import { sharePathLock } from '../groups/path-locks.ts'
import { findGroupId } from '../groups/repositories.ts'
import { hasSiteRights } from '../groups/site-rights.ts'
import type { UpstreamClient, UpstreamRequests, UpstreamRights } from './client/fetch.ts'
import { UpstreamError } from './client/upstream-error.ts'
import { isPattern, maxPatterns } from './documents/patterns.ts'
import { type ReadRoot, readRoot } from './fresh-root.ts'
import { approveNames, requestName } from './tables/mirrored-packages.ts'
import {
  lockRemovedUpstreams,
  lockUpstreamUrl,
  markUpstreamRemoved,
  takeOverNames,
  unbindNames,
} from './tables/removed-upstreams.ts'
import {
  changeUpstream,
  findUpstream,
  insertUpstream,
  listUpstreams,
  lockUpstream,
  type Upstream,
  type UpstreamSettings,
} from './tables/upstreams.ts'

/** A change of the upstreams of a repository, and who makes it. */
export interface UpstreamChange {
  repositoryId: string
  by: Principal
}

/** The upstream that an administrator wants to add. */
export interface WantedUpstream extends Partial<UpstreamSettings> {
  url: string
  /** The name. The default is the host of the URL. */
  name?: string
}

const maxUpstreams = 50

/**
 * Adds an upstream to a repository, after reading its packages.json. It takes over the names that are bound to a removed
 * upstream with the same URL. Throws errcode 3 for settings that break a rule, 6
 * for a name that is taken, 8 when the group has too many upstreams, and 9 with the reason when the upstream cannot be
 * used. The upstream of an operator may use the operator's credentials and reach private hosts.
 */
export async function addUpstream(
  { config, db }: AppContext,
  client: UpstreamClient,
  { repositoryId, by }: UpstreamChange,
  wanted: WantedUpstream,
): Promise<Upstream> {
  refuseBadPatterns(wanted)
  const url = readUpstreamUrl(wanted.url)
  const requireLimit = async (tx: pg.PoolClient) => {
    const groupId = await findGroupId(tx, repositoryId)
    if (groupId === null) throw new Refusal(errcode.notFound, 'repository not found')
    await requireBelowLimit(tx, config, by, 'upstreams', groupId)
  }
  // Check it before any request is sent, and again when the upstream is added.
  await transaction(db, requireLimit)
  const isTrusted = await hasSiteRights(db, by)
  const rights = { usesCredentials: isTrusted, reachesPrivateHosts: isTrusted }
  const { root, lastModified } = await fetchRoot(
    client.for({ url, credentialHosts: [], ...rights }),
    url,
    repositoryId,
  )
  const name = wanted.name ?? new URL(url).hostname.replace(/[^a-z0-9]+/g, '.').slice(0, 64)
  return transaction(db, (tx) =>
    explainRule(async () => {
      const {
        allow = [],
        deny = [],
        exempt = [],
        minimumAgeHours = 0,
        keepsSource = false,
        mode = 'automatic',
        position = null,
      } = wanted
      const settings = { allow, deny, exempt, minimumAgeHours, keepsSource, mode, position }
      await tx.query(sharePathLock('id = $1'), [repositoryId])
      await requireLimit(tx)
      await lockUpstreamUrl(tx, repositoryId, url)
      const added = await insertUpstream(tx, {
        ...settings,
        repositoryId,
        name,
        url,
        ...rights,
        root,
        rootLastModified: lastModified,
      })
      if ((await listUpstreams(tx, repositoryId)).length > maxUpstreams) {
        throw invalid(`a repository can have at most ${maxUpstreams} upstreams`)
      }
      const names = await takeOverNames(tx, added)
      await noteListingChange(tx, repositoryId)
      const about = {
        upstream: name,
        url,
        mode,
        allow,
        deny,
        exempt,
        minimum_age_hours: minimumAgeHours,
        keeps_source: keepsSource,
        uses_credentials: rights.usesCredentials,
        reaches_private_hosts: rights.reachesPrivateHosts,
      }
      const details = { ...about, ...(names > 0 && { packages_taken_over: names }) }
      await insertEvent(tx, by, { repositoryId, action: 'add-upstream', details })
      return added
    }),
  )
}

/**
 * Changes the given settings of an upstream, and writes an event if something is another value then. Throws errcode 3 for
 * invalid settings, and 5 when there is no such upstream.
 */
export async function setUpstream(
  pool: pg.Pool,
  { repositoryId, by }: UpstreamChange,
  name: string,
  change: Partial<UpstreamSettings> & Partial<UpstreamRights>,
): Promise<Upstream> {
  refuseBadPatterns(change)
  const badHost = change.credentialHosts?.find((host) => !isHostAndPort(host))
  if (badHost !== undefined) throw invalid(`${badHost} is not a valid host`)
  return transaction(pool, (tx) =>
    explainRule(async () => {
      await tx.query(sharePathLock('id = $1'), [repositoryId])
      await lockUpstream(tx, repositoryId, name)
      const former = await findUpstream(tx, repositoryId, name)
      const changed = await changeUpstream(tx, repositoryId, name, change)
      if (!former || !changed) throw noUpstream()
      const settings = detailsOfChange<UpstreamSettings & UpstreamRights>(former, change)
      if (settings) {
        const details = { upstream: name, ...settings }
        await insertEvent(tx, by, { repositoryId, action: 'set-upstream', details })
      }
      return changed
    }),
  )
}

/**
 * Removes an upstream from a repository. Its packages stay bound to it, so that no other upstream can take over their
 * names (UPSTREAMS 15). `releasesNames` unbinds them. It also unbinds those of upstreams that were removed before, by
 * their name or URL. Throws errcode 5 when there is no such upstream, or none that has names.
 */
export async function removeUpstream(
  pool: pg.Pool,
  { repositoryId, by }: UpstreamChange,
  name: string,
  { releasesNames = false } = {},
): Promise<void> {
  await transaction(pool, async (tx) => {
    await tx.query(sharePathLock('id = $1'), [repositoryId])
    await lockUpstream(tx, repositoryId, name)
    const removed = await markUpstreamRemoved(tx, repositoryId, name)
    if (removed === null && !releasesNames) throw noUpstream()
    if (releasesNames) {
      const ids = removed === null ? await lockRemovedUpstreams(tx, repositoryId, name) : [removed]
      const released = await unbindNames(tx, repositoryId, ids)
      if (removed === null && released === 0) throw noUpstream()
    }
    await noteListingChange(tx, repositoryId)
    const details = { upstream: name, released: releasesNames }
    await insertEvent(tx, by, { repositoryId, action: 'remove-upstream', details })
  })
}

/** Approves packages for upstreams in the mode `approved`. Returns the packages that were not approved before. */
export async function approvePackages(
  pool: pg.Pool,
  { repositoryId, by }: UpstreamChange,
  names: readonly string[],
): Promise<string[]> {
  const wrong = names.find((name) => !isPackageName(name))
  if (wrong !== undefined) throw invalid(`${wrong} is not a valid package name`)
  return transaction(pool, async (tx) => {
    const approved = await approveNames(tx, repositoryId, names)
    for (const packageName of approved) {
      await insertEvent(tx, by, { repositoryId, packageName, version: null, action: 'approve-package' })
    }
    return approved
  })
}

/** Reads packages.json of an upstream. Throws errcode 9 with the reason when it cannot be used. */
async function fetchRoot(client: UpstreamRequests, url: string, repositoryId: string): Promise<ReadRoot> {
  try {
    const read = await readRoot(client, { url, owner: repositoryId })
    if (read === 'unchanged') throw new UpstreamError('packages.json of the upstream has no content')
    return read
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error
    throw new Refusal(errcode.failedPrecondition, `the upstream cannot be used: ${error.message}`, {
      cause: error,
    })
  }
}

function readUpstreamUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (!url || !/^https?:$/.test(url.protocol)) throw invalid('the URL of an upstream must be https or http')
  if (url.username !== '' || url.password !== '') {
    throw invalid('the URL of an upstream must not contain credentials: put them into UPSTREAM_AUTH_FILE')
  }
  if (url.search !== '' || url.hash !== '')
    throw invalid('the URL of an upstream must not have a query or a fragment')
  return url.href.replace(/\/+$/, '')
}

function refuseBadPatterns({ allow = [], deny = [], exempt = [] }: Partial<UpstreamSettings>): void {
  if ([allow, deny, exempt].some(({ length }) => length > maxPatterns)) {
    throw invalid(`at most ${maxPatterns} patterns are allowed`)
  }
  const wrong = [...allow, ...deny, ...exempt].find((pattern) => !isPattern(pattern))
  if (wrong === undefined) return
  throw invalid(`${wrong} is not a valid pattern: use vendor/*, vendor/package or vendor/*:^6, in lower case`)
}

async function explainRule<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const constraint = brokenConstraint(error)
    if (constraint === 'upstream_name_is_taken') {
      throw new Refusal(errcode.alreadyExists, 'the repository already has an upstream with this name')
    }
    if (constraint?.startsWith('upstream_')) throw invalid(describeRule(constraint))
    throw error
  }
}

function noUpstream(): Refusal {
  return new Refusal(errcode.notFound, 'upstream not found')
}

function invalid(errmsg: string): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg)
}

/**
 * Stores a request to approve a package of an upstream in the mode `approved`. Returns false when the package is
 * already approved or requested. Throws errcode 3 for an invalid package name.
 */
export async function requestPackage(
  pool: pg.Pool,
  { repositoryId, by }: { repositoryId: string; by: Principal },
  packageName: string,
): Promise<boolean> {
  const { accountId } = by
  if (!isPackageName(packageName)) throw new Refusal(errcode.invalidArgument, 'invalid package name')
  if (accountId === null) return false
  return transaction(pool, async (tx) => {
    const isNew = await requestName(tx, repositoryId, packageName, accountId)
    if (isNew) {
      await insertEvent(tx, by, { repositoryId, packageName, version: null, action: 'request-package' })
    }
    return isNew
  })
}
