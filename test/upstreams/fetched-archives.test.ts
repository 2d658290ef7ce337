import { expect, it } from 'vitest'
import { collectionLock } from '../../src/archives/tables/archives.ts'
import { transaction } from '../../src/database/database.ts'
import { saveFetchedArchives } from '../../src/upstreams/tables/mirrored-archives.ts'
import { aRepository } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'

const t = useDatabase()

/** Inserts an archive that a document of an upstream has named. Returns its id. */
async function anArchive(): Promise<string> {
  const { id } = await aRepository(t.db)
  const { rows } = await t.db.query<{ id: string }>(
    `with own as (
       insert into upstream (repository_id, name, url, position)
       values ($1, 'one', 'https://packages.example.com/', 1) returning id
     ), named as (
       insert into mirrored_package (repository_id, name, upstream_id, first_seen_at)
       select $1, 'acme/lib', id, now() from own returning id
     )
     insert into mirrored_archive (package_id, version_path, reference, version, normalized, type, url)
     select id, '1.0.0', 'a1b2c3', '1.0.0', '1.0.0.0', 'zip', '' from named returning id`,
    [id],
  )
  return rows[0]?.id ?? expect.fail('no archive was inserted')
}

const fetched = { sha256: 'ab'.repeat(32), sha1: 'cd'.repeat(20), size: 1, isDownload: true }

it('a fetched archive is saved although its row changes while the save waits for a collection', async () => {
  const id = await anArchive()
  let saving: Promise<boolean[]> | undefined
  await transaction(t.db, async (tx) => {
    await tx.query('select pg_advisory_xact_lock($1)', [collectionLock])
    saving = saveFetchedArchives(t.db, [{ ...fetched, id }])
    const isWaiting = `select from pg_locks where locktype = 'advisory' and not granted
                          and database = (select oid from pg_database where datname = current_database())`
    await expect.poll(async () => (await t.db.query(isWaiting)).rowCount).toBe(1)
    await t.db.query(`update mirrored_archive set url = 'https://packages.example.com/1.zip' where id = $1`, [
      id,
    ])
  })
  expect(await saving).toEqual([true])
})

it('of two fetches with different bytes at the same time only the first is saved', async () => {
  const id = await anArchive()
  const saves = await Promise.all(
    ['01', '02', '03', '04'].map((byte) =>
      saveFetchedArchives(t.db, [{ ...fetched, id, sha256: byte.repeat(32) }]),
    ),
  )
  expect(saves.flat().filter((isSaved) => isSaved)).toEqual([true])
})

it('the results have the order of the archives', async () => {
  const ids = [await anArchive(), await anArchive(), await anArchive()].toReversed()
  const archives = ids.map((id) => ({ ...fetched, id }))
  expect(await saveFetchedArchives(t.db, archives)).toEqual([true, true, true])
  const changed = archives.map((archive, i) => (i === 1 ? { ...archive, sha256: 'ef'.repeat(32) } : archive))
  expect(await saveFetchedArchives(t.db, changed)).toEqual([true, false, true])
})

it('the first fetch is not saved when the upstream has announced another shasum meanwhile', async () => {
  const id = await anArchive()
  const announce = (shasum: string) =>
    t.db.query('update mirrored_archive set shasum = $2 where id = $1', [id, shasum])
  await announce('01'.repeat(20))
  expect(await saveFetchedArchives(t.db, [{ ...fetched, id }])).toEqual([false])
  await announce(fetched.sha1)
  expect(await saveFetchedArchives(t.db, [{ ...fetched, id }])).toEqual([true])
  await announce('01'.repeat(20))
  expect(await saveFetchedArchives(t.db, [{ ...fetched, id }])).toEqual([true])
})

it('an archive that was fetched before any download counts as downloaded at its first one, also on the same day', async () => {
  const id = await anArchive()
  const wasDownloaded = async () =>
    (await t.db.query('select was_downloaded from mirrored_archive where id = $1', [id])).rows[0]
      .was_downloaded
  await saveFetchedArchives(t.db, [{ ...fetched, id, isDownload: false }])
  expect(await wasDownloaded()).toBe(false)
  await t.db.query('select note_archive_uses($1)', [[id]])
  expect(await wasDownloaded()).toBe(true)
})
