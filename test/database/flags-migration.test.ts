import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { builtInMigrations } from '../../src/database/migrate.ts'
import { aRepository } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()

it('0056_unflag_released_names.sql removes the flags that names without an upstream kept from an earlier release', async () => {
  const { db } = database
  const { id } = await aRepository(db)
  const { rows } = await db.query<{ id: string }>(
    `insert into upstream (repository_id, name, url, position) values ($1, 'public', 'https://x.example/', 1) returning id`,
    [id],
  )
  const flags = JSON.stringify([{ constraint: '1.0.0', reason: 'steals' }])
  await db.query(
    `insert into mirrored_package (repository_id, name, upstream_id, flags, summary)
     values ($1, 'free/document', null, $2, null), ($1, 'free/summary', null, '[]', '2.0.0'),
            ($1, 'bound/both', $3, $2, '2.0.0')`,
    [id, flags, rows[0]?.id],
  )
  await db.query('select render_filter_document($1)', [id])
  const listed = async () => {
    const document = await db.query('select plain from filter_document where repository_id = $1', [id])
    return Object.keys(JSON.parse(document.rows[0]?.plain).filter.malware)
  }
  expect(await listed()).toEqual(['bound/both', 'free/document', 'free/summary'])
  await db.query(await readFile(join(builtInMigrations, '0056_unflag_released_names.sql'), 'utf8'))
  expect(await listed()).toEqual(['bound/both'])
})
