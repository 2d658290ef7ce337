import type pg from 'pg'
import { isVendorName } from '../composer/package-name.ts'
import { type Queryable, transaction } from '../database/database.ts'
import { formatCount } from '../domain/formats.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { insertEvent } from '../events/events.ts'
import { keepGroupPath } from '../groups/path-locks.ts'
import { isPattern } from './documents/patterns.ts'
import {
  claimVendor,
  countCutOff,
  needsVendorClaim,
  releaseVendor,
  type VendorClaim,
} from './tables/vendor-claims.ts'

/**
 * Claims a vendor for a group. Then only the group's own repositories offer its packages, except for the exceptions.
 * Throws errcode 3 for a bad name or pattern, and 9 when packages of the vendor come from upstreams, no exception
 * matches them, and `force` is not set.
 */
export async function claimVendorByHand(
  pool: pg.Pool,
  by: Principal,
  group: { id: string },
  { vendor, exceptions, force }: { vendor: string; exceptions: readonly string[]; force: boolean },
): Promise<VendorClaim> {
  if (!isVendorName(vendor)) throw invalid(`${vendor} is not a valid vendor name: use lower-case letters`)
  const wrong = exceptions.find((pattern) => !isPattern(pattern) || pattern.includes(':'))
  if (wrong !== undefined) throw invalid(`${wrong} is not a valid pattern: use one such as ${vendor}/*`)
  return transaction(pool, async (tx) => {
    await keepGroupPath(tx, group.id)
    const cutOff = await countCutOff(tx, group.id, vendor, exceptions)
    if (cutOff > 0 && !force) {
      throw new Refusal(
        errcode.failedPrecondition,
        `${formatCount(cutOff, 'package')} of ${vendor} from upstreams would become unavailable: add exceptions, or confirm that you accept this`,
      )
    }
    const { claim, formerExceptions } = await claimVendor(tx, group.id, vendor, exceptions)
    const from = formerExceptions !== null && { from: { exceptions: formerExceptions } }
    await note(tx, by, group, { action: 'claim-vendor', details: { vendor, exceptions, ...from } })
    return claim
  })
}

/**
 * Ends a claim that was made by hand. Throws errcode 5 when the group has no claim on the vendor, and 9 when the group
 * has published packages of the vendor.
 */
export async function releaseVendorByHand(
  pool: pg.Pool,
  by: Principal,
  group: { id: string },
  vendor: string,
): Promise<void> {
  await transaction(pool, async (tx) => {
    await keepGroupPath(tx, group.id)
    const outcome = await releaseVendor(tx, group.id, vendor)
    if (outcome === null) throw new Refusal(errcode.notFound, 'the group has no claim on this vendor')
    if (outcome === 'published') {
      const repair = `to get its other packages from upstreams, claim it with the exception ${vendor}/*`
      throw new Refusal(
        errcode.failedPrecondition,
        `the group has published packages of ${vendor}: ${repair}`,
      )
    }
    await note(tx, by, group, { action: 'release-vendor', details: { vendor } })
  })
}

/**
 * Refuses to publish a package of a vendor that an upstream of the group serves. Publishing would hide packages of the
 * upstream, so an administrator must claim the vendor first (UPSTREAMS 3). Throws errcode 9 with status 409.
 */
export async function refuseMirroredVendor(
  db: Queryable,
  repositoryId: string,
  packageName: string,
): Promise<void> {
  if (!(await needsVendorClaim(db, repositoryId, packageName))) return
  const [vendor = ''] = packageName.split('/')
  throw new Refusal(errcode.failedPrecondition, `vendor ${vendor} comes from an upstream`, {
    status: 409,
    warning: `An administrator must claim the vendor first: svc vendor claim <group> ${vendor} --except '${vendor}/*'`,
  })
}

function note(
  tx: pg.PoolClient,
  by: Principal,
  { id: groupId }: { id: string },
  event: { action: 'claim-vendor' | 'release-vendor'; details: Record<string, unknown> },
): Promise<void> {
  return insertEvent(tx, by, { groupId, ...event })
}

function invalid(errmsg: string): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg)
}
