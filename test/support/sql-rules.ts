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

/** Returns for each pair whether the granted resources cover the asked ones, by the rule in SQL. */
export async function coversResourcesInSql(
  db: Queryable,
  pairs: readonly { granted: readonly string[] | null; asked: readonly string[] | null }[],
): Promise<boolean[]> {
  const textsOf = (member: string) =>
    `case when pair -> '${member}' <> 'null' then array(select jsonb_array_elements_text(pair -> '${member}')) end`
  const { rows } = await db.query<{ verdict: boolean }>(
    `select covers_resources(${textsOf('granted')}, ${textsOf('asked')}) as verdict
       from jsonb_array_elements($1::jsonb) with ordinality as p (pair, i)
      order by i`,
    [JSON.stringify(pairs)],
  )
  return rows.map(({ verdict }) => verdict)
}

/** Returns for each value whether a check constraint of the schema accepts it, in a column of this name. */
export async function checkInSql(
  db: Queryable,
  constraint: string,
  column: string,
  values: readonly string[],
): Promise<boolean[]> {
  const found = await db.query<{ expression: string }>(
    'select pg_get_expr(conbin, conrelid) as expression from pg_constraint where conname = $1',
    [constraint],
  )
  const { rows } = await db.query<{ verdict: boolean }>(
    `select ${found.rows[0]?.expression} as verdict from unnest($1::text[]) with ordinality as u (${column}, i) order by i`,
    [values],
  )
  return rows.map(({ verdict }) => verdict)
}

/** Returns the code points that are no plain text, by the rule in SQL. PostgreSQL stores neither NUL nor surrogates. */
export async function unsafeCodePointsInSql(db: Queryable): Promise<number[]> {
  const { rows } = await db.query<{ n: number }>(
    `select n from generate_series(1, 1114111) as n
      where case when n between 55296 and 57343 then false else not is_plain_text(chr(n)) end order by n`,
  )
  return rows.map(({ n }) => n)
}

/** Returns the media type of each image, by the rule in SQL. */
export async function imageTypesInSql(db: Queryable, images: readonly Buffer[]): Promise<(string | null)[]> {
  const { rows } = await db.query<{ type: string | null }>(
    `select image_type(decode(image, 'hex')) as type from unnest($1::text[]) with ordinality as u (image, i) order by i`,
    [images.map((image) => image.toString('hex'))],
  )
  return rows.map(({ type }) => type)
}

/** Returns the roles of members, weakest first, by their type in SQL. */
export async function rolesInSql(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ roles: string[] }>(
    'select enum_range(null::member_role)::text[] as roles',
  )
  return rows[0]?.roles ?? []
}

/** Returns for each package name whether one of the patterns matches it, by the rule in SQL. */
export async function matchesInSql(
  db: Queryable,
  names: readonly string[],
  patterns: readonly string[],
): Promise<boolean[]> {
  const { rows } = await db.query<{ verdict: boolean }>(
    `select matches_pattern(name, $2) as verdict from unnest($1::text[]) with ordinality as u (name, i) order by i`,
    [names, patterns],
  )
  return rows.map(({ verdict }) => verdict)
}

/** Returns the broken constraint of the table account for each username. Null for a good one. */
export function usernameMistakesInSql(db: Queryable, usernames: string[]): Promise<(string | null)[]> {
  return accountMistakesInSql(db, 'the_username', usernames)
}

/** Returns the broken constraint of the table account for each email. Null for a good one. */
export function emailMistakesInSql(db: Queryable, emails: string[]): Promise<(string | null)[]> {
  return accountMistakesInSql(db, 'the_email', emails)
}

async function accountMistakesInSql(db: Queryable, which: 'the_username' | 'the_email', values: string[]) {
  // A function catches the errors, so that one statement decides about all values.
  await db.query(
    `create or replace function account_mistake(the_username text, the_email text) returns text
     language plpgsql as $$
     declare
       mistake text;
     begin
       perform refuse_malformed_account(
         the_username => account_mistake.the_username, the_display_name => null, the_email => account_mistake.the_email);
       return null;
     exception when check_violation then
       get stacked diagnostics mistake = constraint_name;
       return mistake;
     end $$`,
  )
  const { rows } = await db.query<{ mistake: string | null }>(
    `select account_mistake(${which} => value, ${which === 'the_email' ? 'the_username' : 'the_email'} => null) as mistake
       from unnest($1::text[]) with ordinality as u (value, i) order by i`,
    [values],
  )
  return rows.map(({ mistake }) => mistake)
}
