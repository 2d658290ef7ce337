import type pg from 'pg'
import type { Queryable } from '../../src/database/database.ts'

/** Describes everything that the schema of a database has, one line each, in the order of the lines. */
export async function describeSchema(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ line: string }>(
    `with relation as (
       select oid, relname, relkind, relpersistence, reloptions
         from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v', 'S', 'i')
     ), object as (
       select concat_ws(' | ', 'relation', relname, relkind, relpersistence, reloptions, obj_description(oid, 'pg_class')) as line
         from relation
       union all
       -- A dropped column leaves a gap in the numbers.
       select concat_ws(' | ', 'column', relname, row_number() over (partition by r.oid order by attnum), attname,
                        format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attstorage, attcollation,
                        attstattarget, pg_get_expr(adbin, adrelid), col_description(r.oid, attnum))
         from relation r join pg_attribute a on attrelid = r.oid and attnum > 0 and not attisdropped
         left join pg_attrdef on adrelid = r.oid and adnum = attnum
       union all
       select concat_ws(' | ', 'constraint', conrelid::regclass, conname, convalidated, pg_get_constraintdef(k.oid))
         from pg_constraint k join relation r on r.oid = conrelid
       union all
       select concat_ws(' | ', 'index', pg_get_indexdef(oid)) from relation where relkind = 'i'
       union all
       select concat_ws(' | ', 'view', relname, pg_get_viewdef(oid)) from relation where relkind = 'v'
       union all
       select concat_ws(' | ', 'trigger', tgenabled, pg_get_triggerdef(t.oid))
         from pg_trigger t join relation r on r.oid = tgrelid where not tgisinternal
       union all
       select concat_ws(' | ', 'type', typname, array(select enumlabel from pg_enum where enumtypid = t.oid order by enumsortorder),
                        obj_description(oid, 'pg_type'))
         from pg_type t where typnamespace = 'public'::regnamespace and typtype = 'e'
       union all
       select concat_ws(' | ', 'sequence', sequencename, data_type, start_value, increment_by, max_value, cycle) from pg_sequences
       union all
       select concat_ws(' | ', 'function', pg_get_functiondef(oid)) from pg_proc where pronamespace = 'public'::regnamespace
     )
     select line from object order by line collate "C"`,
  )
  return rows.map(({ line }) => line)
}

/** Returns how many characters each column may have, by the names of table and column: `account.username`. */
export async function readTextLimits(db: Queryable): Promise<Map<string, number>> {
  const { rows } = await db.query<{ key: string; most: number }>(
    `select conrelid::regclass || '.' || found[1] as key, found[2]::int as most
       from pg_constraint,
            regexp_matches(pg_get_constraintdef(oid), 'char_length\\((\\w+)\\) <= (\\d+)', 'g') as found`,
  )
  return new Map(rows.map(({ key, most }) => [key, most]))
}

/** Counts the rows of every table. */
export async function countEveryTable(db: Queryable): Promise<Record<string, number>> {
  const { rows: tables } = await db.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`,
  )
  const counts: Record<string, number> = {}
  for (const { name } of tables) {
    const { rows } = await db.query<{ count: number }>(`select count(*)::int as count from "${name}"`)
    counts[name] = rows[0]?.count ?? 0
  }
  return counts
}

/** Lists the tables in the order of their names. */
export async function listTables(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`,
  )
  return rows.map(({ name }) => name)
}

/** Lists the tables with a foreign key to a table. */
export async function listReferringTables(db: Queryable, table: string): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    'select conrelid::regclass::text as name from pg_constraint where confrelid = $1::regclass',
    [table],
  )
  return rows.map(({ name }) => name)
}

/** Returns the statement of a view. */
export async function viewDefinition(db: Queryable, view: string): Promise<string> {
  const { rows } = await db.query<{ text: string }>('select pg_get_viewdef($1::regclass) as text', [view])
  return rows[0]?.text ?? ''
}

/** Lists the triggers, each after its table: `account account_is_logged`. */
export async function listTriggers(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ trigger: string }>(
    `select r.relname || ' ' || t.tgname as trigger from pg_trigger t join pg_class r on r.oid = t.tgrelid
      where not t.tgisinternal`,
  )
  return rows.map(({ trigger }) => trigger)
}

/** Draws the next id of a sequence. */
export async function nextId(db: Queryable, sequence: string): Promise<number> {
  const { rows } = await db.query<{ id: number }>('select nextval($1)::int as id', [sequence])
  return rows[0]?.id ?? 0
}

/** A column with texts, or with JSON that may contain texts. */
export interface TextColumn {
  table: string
  column: string
  isJson: boolean
}

/** Lists the columns of all tables that may have texts. */
export async function listTextColumns(db: Queryable): Promise<TextColumn[]> {
  const { rows } = await db.query<TextColumn>(
    `select c.relname as "table", a.attname as "column", a.atttypid in ('json'::regtype, 'jsonb'::regtype) as "isJson"
       from pg_attribute a join pg_class c on c.oid = a.attrelid
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
        and a.attgenerated = ''
        and a.atttypid in ('text'::regtype, 'text[]'::regtype, 'json'::regtype, 'jsonb'::regtype)
      order by 1, 2`,
  )
  return rows
}

/**
 * Changes each value of a column. A value that the database refuses stays as it was. On one connection: a pool closes a
 * connection after each refusal.
 */
export async function changeTexts(
  db: pg.Pool,
  { table, column, isJson }: TextColumn,
  change: (value: unknown) => unknown,
): Promise<void> {
  const client = await db.connect()
  try {
    const { rows } = await client.query<{ ctid: string; value: unknown }>(
      `select ctid, "${column}" as value from "${table}" where "${column}" is not null`,
    )
    const update = `update "${table}" set "${column}" = $1 where ctid = $2`
    // The connection sends them one after another without waiting for each outcome.
    await Promise.all(
      rows.map(({ ctid, value }) => {
        const changed = change(value)
        return client.query(update, [isJson ? JSON.stringify(changed) : changed, ctid]).catch(() => null)
      }),
    )
  } finally {
    client.release()
  }
}
