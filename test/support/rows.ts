import type { PoolClient } from 'pg'
import type { Queryable } from '../../src/database/database.ts'

/** Values of the columns of a row, by their names in camel case. An array has the values that one may have. */
export type Values = Record<string, unknown>

/** The tables whose rows expire. */
export type ExpiringTable =
  | 'authorization_request'
  | 'confirmation_link'
  | 'deploy_token'
  | 'email_verification'
  | 'held_form'
  | 'invitation'
  | 'password_reset'
  | 'personal_token'
  | 'proven_identity'
  | 'provider_sign_in'
  | 'session'
  | 'sign_in_step'
  | 'spent_challenge'

/** Counts the rows of a table, or those with these values. */
export async function countRows(db: Queryable, table: string, where: Values = {}): Promise<number> {
  const { condition, values } = conditionOf(where)
  const counting = `select count(*)::int as count from ${identifierOf(table)} where ${condition}`
  const { rows } = await db.query<{ count: number }>(counting, values)
  return rows[0]?.count ?? 0
}

/** Lets the rows of a table, or those with these values, expire this long ago. */
export async function expire(
  db: Queryable,
  table: ExpiringTable,
  where: Values = {},
  ago = '0 seconds',
): Promise<void> {
  const { condition, values } = conditionOf(where)
  await db.query(
    `update ${table} set expires_at = now() - $${values.length + 1}::interval where ${condition}`,
    [...values, ago],
  )
}

/** Counts the rows of a table that have expired. */
export async function countExpired(db: Queryable, table: ExpiringTable): Promise<number> {
  return (await db.query(`select from ${table} where expires_at < now()`)).rowCount ?? 0
}

/** Deletes the rows of a table that have these values, with all that belongs to them and without an act of the product. */
export async function dropRows(db: Queryable, table: string, where: Values = {}): Promise<void> {
  const { condition, values } = conditionOf(where)
  await db.query(`delete from ${identifierOf(table)} where ${condition}`, values)
}

/** Returns the rows of a table that have these values, as one text: for what must not be stored there. */
export async function textOf(db: Queryable, table: string, where: Values = {}): Promise<string> {
  const { condition, values } = conditionOf(where)
  const { rows } = await db.query<{ text: string }>(
    `select coalesce(string_agg(t::text, E'\\n'), '') as text from ${identifierOf(table)} t where ${condition}`,
    values,
  )
  return rows[0]?.text ?? ''
}

/** Returns all rows of tables as text: the rows of each, in the order of the text. */
export async function textsOf(db: Queryable, tables: readonly string[]): Promise<Record<string, string[]>> {
  if (tables.length === 0) return {}
  // One statement: there are more than a hundred tables.
  const texts = tables.map(
    (table) =>
      `select '${identifierOf(table)}' as name, array(select t::text from ${identifierOf(table)} t) as rows`,
  )
  const { rows } = await db.query<{ name: string; rows: string[] }>(texts.join(' union all '))
  return Object.fromEntries(rows.map(({ name, rows }) => [name, rows.toSorted()]))
}

/** Returns the SQL condition for values, with parameters from $1. */
export function conditionOf(where: Values): { condition: string; values: unknown[] } {
  const columns = Object.keys(where)
  const values = Object.values(where)
  const conditions = columns.map((column, i) =>
    Array.isArray(values[i])
      ? `${identifierOf(column)} = any($${i + 1})`
      : `${identifierOf(column)} is not distinct from $${i + 1}`,
  )
  return { condition: conditions.join(' and ') || 'true', values }
}

function identifierOf(name: string): string {
  if (!/^\w+$/.test(name)) throw new Error(`not an identifier: ${name}`)
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** Truncates a table. */
export async function truncateTable(db: Queryable, table: string): Promise<void> {
  await db.query(`truncate ${identifierOf(table)}`)
}

/** Returns all rows of a table, in the order of their first column. */
export async function readRows(db: Queryable, table: string): Promise<Values[]> {
  return (await db.query<Values>(`select * from ${identifierOf(table)} order by 1`)).rows
}

/** Writes each row of a table again, with the same values. */
export async function rewriteRows(db: Queryable, table: string, column: string): Promise<void> {
  await db.query(`update ${identifierOf(table)} set ${identifierOf(column)} = ${identifierOf(column)}`)
}

/** Returns the id of the newest row of a table. */
export async function latestId(db: Queryable, table: string): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `select id from ${identifierOf(table)} order by id desc limit 1`,
  )
  return rows[0]?.id ?? ''
}

/** Returns the time of a transaction: `now()` stays the same until it ends. */
export async function startOfTransaction(tx: PoolClient): Promise<Date> {
  const { rows } = await tx.query<{ now: Date }>('select now() as now')
  if (!rows[0]) throw new Error('no time')
  return rows[0].now
}
