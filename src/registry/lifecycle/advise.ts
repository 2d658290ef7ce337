import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { errcode, RegistryError } from '../errors.ts'
import { type Advisory, type AdvisoryText, insertAdvisory, markWithdrawn } from '../tables/advisories.ts'
import { changePackage, type PackageChange, renderDocuments } from './change.ts'

/** Publishes a security advisory for a package. `composer audit` and `composer update` see it at once. */
export async function publishAdvisory(
  pool: pg.Pool,
  change: PackageChange,
  text: AdvisoryText,
): Promise<Advisory> {
  const { advisory } = await changePackage(pool, change, async (tx, held) => {
    const advisory = await insertAdvisory(tx, held.id, makeAdvisoryId(), text)
    await renderDocuments(tx, held, change.baseUrl)
    const details = { advisory_id: advisory.advisoryId, ...text }
    return { action: 'advise', version: null, details, advisory } as const
  })
  return advisory
}

/** Withdraws an advisory. Throws errcode 5 when the package has none of that id. */
export async function withdrawAdvisory(
  pool: pg.Pool,
  change: PackageChange,
  advisoryId: string,
): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const isWithdrawn = await markWithdrawn(tx, held.id, advisoryId)
    if (!isWithdrawn) throw new RegistryError(errcode.notFound, 'advisory not found')
    await renderDocuments(tx, held, change.baseUrl)
    return { action: 'withdraw', version: null, details: { advisory_id: advisoryId } }
  })
}

/** Returns an id such as SVC-7kq2-m4tz-x3dp: 60 random bits, so that no two registries make the same one. */
function makeAdvisoryId(): string {
  const letters = 'abcdefghijklmnopqrstuvwxyz234567'
  const picked = Array.from(randomBytes(12), (byte) => letters[byte & 31]).join('')
  return `SVC-${picked.slice(0, 4)}-${picked.slice(4, 8)}-${picked.slice(8)}`
}
