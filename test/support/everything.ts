import type { Queryable } from '../../src/database/database.ts'

/** Returns all rows of all tables as text. Binary values are in hex. */
export async function dumpRows(db: Queryable): Promise<string> {
  const { rows: tables } = await db.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'public'`,
  )
  const dumps = await Promise.all(
    tables.map(({ name }) =>
      db.query<{ text: string }>(`select coalesce(string_agg(t::text, E'\\n'), '') as text from ${name} t`),
    ),
  )
  return dumps.map(({ rows }) => rows[0]?.text ?? '').join('\n')
}
