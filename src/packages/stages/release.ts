import type pg from 'pg'
import { transaction } from '../../database/database.ts'
import { cleanLine } from '../../domain/plain-text.ts'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { insertEvent } from '../../events/events.ts'
import { requireReviewer } from '../../groups/live-principal.ts'
import { notNow } from '../lifecycle/change.ts'
import { addVersion } from '../publish.ts'
import {
  findStage,
  findStagedReadme,
  lockNumbers,
  markRejected,
  markReleased,
  type Stage,
} from '../tables/staged-versions.ts'

const maxReasonCharacters = 500

/** A decision about a stage: who makes it, and the base URL of links. */
interface Decision {
  stage: Pick<Stage, 'id' | 'repositoryId' | 'packageName'>
  by: Principal
  baseUrl: string
}

/**
 * Releases a stage: one transaction ends the stage, publishes the version and writes the events. Of several decisions that
 * race, one succeeds. Returns `approved` when another developer must release it, too. Throws errcode 7 as `requireReviewer`
 * does, and errcode 9 with 409 when the stage does not wait any more, or when somebody else must decide.
 */
export async function releaseStage(
  pool: pg.Pool,
  { stage: { id, repositoryId, packageName }, by, baseUrl }: Decision,
): Promise<'released' | 'approved'> {
  return transaction(pool, async (tx) => {
    await lockNumbers(tx, repositoryId, packageName)
    await requireReviewer(tx, by, repositoryId)
    const outcome = await markReleased(tx, id, by.accountId)
    const stage = await findStage(tx, id)
    if (!stage) throw noStage()
    if (outcome === null) throw whyNot(stage, by)
    const { version, composerVersion, normalized, isDev, metadata, sha256, sha1, size } = stage
    const event = { repositoryId, packageName, version, details: { stage: id, sha256 } }
    if (outcome === 'approved') {
      await insertEvent(tx, by, { ...event, action: 'approve-release' })
      return outcome
    }
    const publication = {
      repositoryId,
      packageName,
      version: { version, composerVersion, normalized, isDev },
      metadata,
      readme: await findStagedReadme(tx, id),
      archive: { sha256, sha1, size },
      by,
    }
    // The number was reserved, so nobody has published it meanwhile.
    await addVersion(tx, { baseUrl }, publication, stage)
    await insertEvent(tx, by, { ...event, action: 'release-stage' })
    return outcome
  })
}

/** Rejects a stage, which frees its number. Writes the event with the reason, in one line. Throws as `releaseStage` does. */
export async function rejectStage(
  pool: pg.Pool,
  { stage: { id, repositoryId, packageName }, by, reason }: Omit<Decision, 'baseUrl'> & { reason: string },
): Promise<void> {
  await transaction(pool, async (tx) => {
    await lockNumbers(tx, repositoryId, packageName)
    await requireReviewer(tx, by, repositoryId)
    const isRejected = await markRejected(tx, id, by.accountId)
    const stage = await findStage(tx, id)
    if (!stage) throw noStage()
    if (!isRejected) throw whyNot(stage, by)
    const { version, sha256 } = stage
    const line = cleanLine(reason).slice(0, maxReasonCharacters)
    const details = { stage: id, sha256, ...(line !== '' && { reason: line }) }
    await insertEvent(tx, by, { action: 'reject', repositoryId, packageName, version, details })
  })
}

/** Returns the error for a stage that does not exist. */
export function noStage(): Refusal {
  return new Refusal(errcode.notFound, 'staged version not found')
}

/**
 * Returns why an account cannot release a waiting stage where two people must, by the rule of `markReleased`, which decides.
 * Null if it can.
 */
export function obstacleTo(
  { by, approverId }: Pick<Stage, 'by' | 'approverId'>,
  accountId: string | null,
): string | null {
  if (accountId === null) return null
  if (by.accountId === accountId) return 'you staged it: another developer must release it'
  return approverId === accountId ? 'you approved it: another developer must release it, too' : null
}

function whyNot(stage: Stage, { accountId }: Principal): Refusal {
  const { state, version } = stage
  if (state === 'staged') return notNow(obstacleTo(stage, accountId) ?? 'another developer must release it')
  return notNow(`version ${version} is ${state} already`)
}
