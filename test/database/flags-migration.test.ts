import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { builtInMigrations } from '../../src/database/migrate.ts'
import { findLockedArchive } from '../../src/upstreams/tables/mirrored-archives.ts'
import { aRepository } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()

it('0056_unflag_released_names.sql removes flags that outlived their upstream', async () => {
  const { db } = database
  const { id } = await aRepository(db)
  const addUpstream = async (name: string, root: object) => {
    const { rows } = await db.query<{ id: string }>(
      `insert into upstream (repository_id, name, url, position, root) values ($1, $2, 'https://x.example/', 1, $3)
       returning id`,
      [id, name, root],
    )
    return rows[0]?.id
  }
  const plain = await addUpstream('plain', { filterSummaryUrl: null })
  const flagging = await addUpstream('flagging', { filterSummaryUrl: 'https://x.example/filter.json' })
  const flags = JSON.stringify([{ constraint: '1.0.0', reason: 'steals' }])
  await db.query(
    `insert into mirrored_package (repository_id, name, upstream_id, flags, summary)
     values ($1, 'free/document', null, $2, null), ($1, 'free/summary', null, '[]', '2.0.0'),
            ($1, 'taken/both', $3, $2, '2.0.0'), ($1, 'taken/summary', $3, '[]', '2.0.0'),
            ($1, 'bound/both', $4, $2, '2.0.0')`,
    [id, flags, plain, flagging],
  )
  await db.query('select render_filter_document($1)', [id])
  const listed = async () => {
    const document = await db.query('select plain from filter_document where repository_id = $1', [id])
    return JSON.parse(document.rows[0]?.plain).filter.malware
  }
  expect(Object.keys(await listed())).toHaveLength(5)
  await db.query(await readFile(join(builtInMigrations, '0056_unflag_released_names.sql'), 'utf8'))
  const both = expect.stringMatching(/^(?:1\.0\.0 \|\| 2\.0\.0|2\.0\.0 \|\| 1\.0\.0)$/)
  expect(await listed()).toEqual({ 'bound/both': both, 'taken/both': '1.0.0' })
})

it('0058_released_and_first_seen.sql serves no archives of names that were released before', async () => {
  const { db } = database
  const { id } = await aRepository(db)
  await db.query(
    `with u as (insert into upstream (repository_id, name, url, position, removed_at)
                values ($1, 'removed', 'https://x.example/', 1, now()) returning id),
          d as (insert into upstream_document (upstream_id, name, is_dev, content)
                select id, 'free/lib', false, 'x' from u),
          m as (insert into mirrored_package (repository_id, name) values ($1, 'free/lib') returning id)
     insert into mirrored_archive (package_id, version_path, reference, version, normalized, type, url, is_stored)
     select id, '1.0.0', 'a1b2c3d', '1.0.0', '1.0.0.0', 'zip', '', false from m`,
    [id],
  )
  await db.query(
    `drop table mirrored_metapackage;
     alter table mirrored_package drop column released_from, drop column released_flags`,
  )
  await db.query(await readFile(join(builtInMigrations, '0058_released_and_first_seen.sql'), 'utf8'))
  expect(await findLockedArchive(db, id, 'free/lib', '1.0.0', 'a1b2c3d')).toBeNull()
})
