import type { Readable, Writable } from 'node:stream'
import pg from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import type { Queryable } from './database.ts'

/** A table and its columns, without generated columns. */
export interface CopiedTable {
  name: string
  columns: string[]
}

/** The position of a sequence. */
export interface SequencePosition {
  name: string
  value: string
  isCalled: boolean
}

const quote = pg.escapeIdentifier

/** Excludes objects of extensions: `create extension` creates them. */
const isOwn = `not exists (select from pg_depend d where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.deptype = 'e')`

/** Returns the tables of the schema `public`, by name. */
export async function listTables(db: Queryable): Promise<CopiedTable[]> {
  const { rows } = await db.query<CopiedTable>(
    `select c.relname as name,
            array(select a.attname::text from pg_attribute a
                   where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
                   order by a.attnum) as columns
       from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and ${isOwn}
      order by c.relname`,
  )
  return rows
}

/** Returns whether the schema `public` has no table, view or sequence. */
export async function isEmptyDatabase(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ isEmpty: boolean }>(
    `select not exists (select from pg_class c
                         where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S') and ${isOwn}) as "isEmpty"`,
  )
  return rows[0]?.isEmpty === true
}

/**
 * Begins a transaction that sees all tables as they are at one moment. Until the transaction ends, no table definition
 * changes and no archive is removed (`unlessBackupRuns`). Returns the tables.
 */
export async function openSnapshot(client: pg.Client): Promise<CopiedTable[]> {
  const tables = await listTables(client)
  await client.query('begin isolation level repeatable read')
  // The first query takes the snapshot. `lock table` is not a query, so locked tables cannot change before the snapshot.
  await client.query('lock table installation in share mode')
  await client.query(`lock table ${tables.map(({ name }) => quote(name)).join(', ')} in access share mode`)
  await withoutTimeouts(client)
  return tables
}

/** Removes the time limits of a transaction. */
export async function withoutTimeouts(client: pg.Client): Promise<void> {
  const timeouts = ['statement_timeout', 'idle_in_transaction_session_timeout', 'lock_timeout']
  await client.query(timeouts.map((timeout) => `set local ${timeout} = 0`).join('; '))
}

/** Streams the rows of a table in PostgreSQL's text format, which every major version reads. */
export function copyOut(client: pg.Client, { name, columns }: CopiedTable): Readable & { rowCount: number } {
  return client.query(copyTo(`copy (select ${columns.map(quote).join(', ')} from ${quote(name)}) to stdout`))
}

/** Returns a stream that inserts rows in the format of `copyOut`. */
export function copyIn(client: pg.Client, { name, columns }: CopiedTable): Writable & { rowCount: number } {
  return client.query(copyFrom(`copy ${quote(name)} (${columns.map(quote).join(', ')}) from stdin`))
}

/** Returns the positions of all sequences. Sequences only grow, so they are not behind the snapshot. */
export async function listSequences(db: Queryable): Promise<SequencePosition[]> {
  const { rows } = await db.query<{ name: string }>(
    `select c.relname as name from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'S' and ${isOwn} order by c.relname`,
  )
  if (rows.length === 0) return []
  const positions = rows.map(
    ({ name }) =>
      `select ${pg.escapeLiteral(name)}::name as name, last_value::text as value, is_called as "isCalled" from ${quote(name)}`,
  )
  return (await db.query<SequencePosition>(`${positions.join(' union all ')} order by name`)).rows
}

/** Sets sequences to their positions. */
export async function setSequences(db: Queryable, positions: readonly SequencePosition[]): Promise<void> {
  await db.query(
    `select setval(to_regclass(quote_ident(name)), value, "isCalled")
       from json_to_recordset($1) as position(name text, value bigint, "isCalled" boolean)`,
    [JSON.stringify(positions)],
  )
}

/**
 * Empties all tables, and removes foreign keys, checks that older rows need not pass, and triggers, so that rows can be
 * loaded in any order. The loaded rows already contain the effects of the triggers. The returned function restores them.
 * Adding the foreign keys checks the rows. Each table changes in one statement, because PostgreSQL reads its definition
 * again after each.
 */
export async function prepareLoad(
  client: pg.Client,
  tables: readonly CopiedTable[],
): Promise<() => Promise<void>> {
  const { rows: changes } = await client.query<{ before: string; after: string }>(
    `select format('alter table %s %s', c.conrelid::regclass,
                   string_agg(format('drop constraint %I', c.conname), ', ')) as before,
            format('alter table %s %s', c.conrelid::regclass,
                   string_agg(format('add constraint %I %s', c.conname, pg_get_constraintdef(c.oid)), ', ')) as after
       from pg_constraint c
      where (c.contype = 'f' or c.contype = 'c' and not c.convalidated)
        and c.conrelid <> 0 and c.connamespace = 'public'::regnamespace and c.conparentid = 0
      group by c.conrelid
      union all
     select format('alter table %I disable trigger user', c.relname), format('alter table %I enable trigger user', c.relname)
       from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relname = any ($1)
        and exists (select from pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal)`,
    [tables.map(({ name }) => name)],
  )
  await client.query(changes.map(({ before }) => before).join('; '))
  await emptyTables(client, tables)
  return async () => {
    await client.query(changes.map(({ after }) => after).join('; '))
  }
}

/** Truncates those of the tables that may have rows. PostgreSQL would build the indexes of the others again, too. */
async function emptyTables(client: pg.Client, tables: readonly CopiedTable[]): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select c.relname as name from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relname = any ($1)
        and (c.relkind = 'p' or pg_relation_size(c.oid) > 0)`,
    [tables.map(({ name }) => name)],
  )
  if (rows.length > 0) await client.query(`truncate ${rows.map(({ name }) => quote(name)).join(', ')}`)
}

/** Updates the statistics of all tables, but not those of PostgreSQL itself: only a superuser may, and it takes longer. */
export async function analyzeTables(db: Queryable): Promise<void> {
  const tables = await listTables(db)
  await db.query(`analyze ${tables.map(({ name }) => quote(name)).join(', ')}`)
}
