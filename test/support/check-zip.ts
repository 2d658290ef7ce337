import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type ArchiveLimits, type CheckedZip, checkZip } from '../../src/archives/check-zip.ts'
import { Refusal } from '../../src/domain/refusal.ts'

/** Checks an archive as if it had been received. */
export async function checkZipOf(zip: Buffer, limits: Partial<ArchiveLimits> = {}): Promise<CheckedZip> {
  const directory = await mkdtemp(join(tmpdir(), 'check-zip-'))
  try {
    await writeFile(join(directory, 'received'), zip)
    return await checkZip(join(directory, 'received'), limits)
  } finally {
    await rm(directory, { recursive: true })
  }
}

/** Returns the error for a rejected archive. The test fails when the archive is accepted. */
export async function refusalOf(zip: Buffer, limits: Partial<ArchiveLimits> = {}): Promise<Refusal> {
  const outcome = await checkZipOf(zip, limits).catch((error: unknown) => error)
  expect(outcome).toBeInstanceOf(Refusal)
  return outcome as Refusal
}

/** Expects that an archive is rejected with this whole message, or with a message that matches the pattern. */
export async function expectInvalid(zip: Buffer, why: string | RegExp): Promise<void> {
  const { errcode, status, errmsg } = await refusalOf(zip)
  const said = errmsg.replace(/^invalid archive: /, '')
  if (typeof why === 'string') expect(said).toBe(why)
  else expect(said).toMatch(why)
  expect([errcode, status]).toEqual([3, 400])
}
