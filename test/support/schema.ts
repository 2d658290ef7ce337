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
