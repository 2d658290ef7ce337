import type { Queryable } from '../../src/database/database.ts'

/** Returns whether a text is plain text, by the rule in SQL. */
export async function isPlainTextInSql(db: Queryable, text: string): Promise<boolean | undefined> {
  const { rows } = await db.query<{ verdict: boolean }>('select is_plain_text($1) as verdict', [text])
  return rows[0]?.verdict
}

/** Returns whether these are scopes, by the rule in SQL. */
export async function areScopesInSql(db: Queryable, scopes: readonly string[]): Promise<boolean | undefined> {
  const { rows } = await db.query<{ verdict: boolean }>('select are_scopes($1) as verdict', [scopes])
  return rows[0]?.verdict
}

/** Returns for each scope whether the granted ones cover it, by the rule in SQL. */
export async function coversInSql(
  db: Queryable,
  granted: readonly string[],
  asked: readonly string[],
): Promise<boolean[]> {
  const { rows } = await db.query<{ verdict: boolean }>(
    `select covers_all($1, array[asked]) as verdict from unnest($2::text[]) with ordinality as u (asked, i)
      order by i`,
    [granted, asked],
  )
  return rows.map(({ verdict }) => verdict)
}
