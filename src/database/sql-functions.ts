import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import type { Queryable } from './database.ts'
import { readSqlFile, runSqlFiles, type SqlFile } from './sql-file.ts'

const fileName = /^[a-z][a-z0-9_]*\.sql$/

/** All texts that a function file has had in this database: name → checksums, the current one last. */
export type FunctionTexts = Map<string, string[]>

/**
 * Reads the SQL functions and views below `migrations/functions`. Each file has one object and is named after it.
 * Returns them in dependency order: a file comes after the files whose objects it mentions. Throws for a wrong file
 * name and for a cycle.
 */
export async function readFunctions(builtInDir: string): Promise<SqlFile[]> {
  const folder = join(builtInDir, 'functions')
  const names = await readdir(folder).catch((): string[] => [])
  names.sort()
  const odd = names.find((name) => !fileName.test(name))
  if (odd)
    throw new Error(
      `${join(folder, odd)} must be named after its SQL function or view, like what_it_does.sql.`,
    )
  const files = await Promise.all(names.map((name) => readSqlFile(join(folder, name), `functions/${name}`)))
  return inDependencyOrder(files)
}

function inDependencyOrder(files: SqlFile[]): SqlFile[] {
  const byObject = new Map(files.map((file) => [objectName(file), file]))
  const ordered = new Set<SqlFile>()
  const add = (file: SqlFile, dependents: SqlFile[]) => {
    if (ordered.has(file)) return
    if (dependents.includes(file)) {
      throw new Error(`These SQL functions use each other: ${dependents.map(objectName).join(', ')}.`)
    }
    for (const word of wordsOf(file)) {
      const used = byObject.get(word)
      if (used && used !== file) add(used, [...dependents, file])
    }
    ordered.add(file)
  }
  for (const file of files) add(file, [])
  return [...ordered]
}

/** The words of files. An upgrade asks for the same ones before each of its steps. */
const knownWords = new WeakMap<SqlFile, ReadonlySet<string>>()

/** Returns the words of a file without its comments. */
export function wordsOf(file: SqlFile): ReadonlySet<string> {
  const known = knownWords.get(file)
  if (known !== undefined) return known
  const words = new Set(file.sql.replace(/--.*/g, '').match(/\w+/g))
  knownWords.set(file, words)
  return words
}

/** Returns the name of the function or view that a file defines. */
export function objectName({ name }: SqlFile): string {
  return name.slice('functions/'.length, -'.sql'.length)
}

/** Returns the texts that the function files had in this database; an empty map before the first migration. */
export async function listFunctionTexts(db: Queryable): Promise<FunctionTexts> {
  const { rows } = await db.query<{ exists: boolean }>(
    `select to_regclass('applied_function') is not null as exists`,
  )
  const texts: FunctionTexts = new Map()
  if (!rows[0]?.exists) return texts
  const applied = await db.query<{ name: string; checksum: string }>(
    'select name, checksum from applied_function order by applied_at',
  )
  for (const { name, checksum } of applied.rows) texts.set(name, [...(texts.get(name) ?? []), checksum])
  return texts
}

/**
 * Returns whether this database never had this text. An earlier text is not new. It belongs to an older release that
 * still runs during a deploy, and it must not replace the newer definition. To restore an earlier definition on
 * purpose, change the comment in its file.
 */
export function isNewText({ name, checksum }: SqlFile, texts: FunctionTexts): boolean {
  return !texts.get(name)?.includes(checksum)
}

/**
 * Replaces functions and views, and records the new texts. Unchanged ones are replaced too, because a migration or
 * another file may have dropped them. A text is skipped when this database already has a newer one. An unchanged view
 * stays, because the replacement of a view waits for all statements that read it, and they may wait for another view.
 */
export async function applyFunctions(
  client: pg.Client,
  files: readonly SqlFile[],
  texts: FunctionTexts,
): Promise<void> {
  await client.query(
    `create table if not exists applied_function (
       name       text not null,
       checksum   text not null,
       applied_at timestamptz not null default now(),
       primary key (name, checksum)
     )`,
  )
  const views = await listViews(client)
  const changed = new Set<string>()
  const replacing: SqlFile[] = []
  const newTexts: SqlFile[] = []
  for (const file of files) {
    const isNew = isNewText(file, texts)
    if (!isNew && texts.get(file.name)?.at(-1) !== file.checksum) continue
    const isChanged = isNew || [...wordsOf(file)].some((word) => changed.has(word))
    if (!isChanged && views.has(objectName(file))) continue
    if (isChanged) changed.add(objectName(file))
    replacing.push(file)
    if (isNew) newTexts.push(file)
  }
  await runSqlFiles(client, replacing)
  await client.query(
    `insert into applied_function (name, checksum)
     select name, checksum from json_to_recordset($1) as applied(name text, checksum text)`,
    [JSON.stringify(newTexts.map(({ name, checksum }) => ({ name, checksum })))],
  )
}

async function listViews(db: Queryable): Promise<ReadonlySet<string>> {
  const { rows } = await db.query<{ name: string }>(
    `select relname as name from pg_class where relkind = 'v' and pg_table_is_visible(oid)`,
  )
  return new Set(rows.map(({ name }) => name))
}
