import type { SqlFile } from './sql-file.ts'

/** The lock modes of tables that matter here, from weak to strong. Reads conflict only with the last one. */
export const lockModes = [
  'row exclusive',
  'share update exclusive',
  'share',
  'share row exclusive',
  'access exclusive',
] as const

/** One of `lockModes`. */
export type LockMode = (typeof lockModes)[number]

/** What the text of a migration shows before it runs. */
export interface MigrationEffects {
  /** The strongest lock that its statements take, by table or index. It also has names that are neither. */
  locks: Map<string, LockMode>
  /** The tables of its queries. It also has names that are no tables. */
  reads: Set<string>
  /** Whether it removes a foreign key, perhaps with its table or column. That locks the other table, too. */
  dropsReferences: boolean
  /** Names of tables, columns, functions and types that it creates. */
  introduced: Set<string>
  /** Tables whose columns or constraints it changes or drops. A table that only gets new columns is not in it. */
  reshaped: Set<string>
  /** Functions and views that it creates or drops. */
  redefined: Set<string>
  /** Whether it also drops what depends on something. */
  cascades: boolean
  /** Whether it commits by itself: it builds an index concurrently, or changes many rows in steps. */
  commits: boolean
  /** Whether its duration depends on the number of rows: it reads or writes rows of tables that exist. */
  touchesRows: boolean
}

const locking: [LockMode, RegExp][] = [
  ['row exclusive', /\b(?:update|insert into|delete from) (?:only )?(\w+)/g],
  ['share update exclusive', /\bcomment on (?:table|column) (\w+)/g],
  ['share update exclusive', /\banalyze (\w+)/g],
  ['share update exclusive', /\balter table (?:only )?(\w+) validate /g],
  ['share update exclusive', /\bcreate (?:unique )?index concurrently (?:if not exists )?\w+ on (\w+)/g],
  ['share', /\bcreate (?:unique )?index (?:if not exists )?(?:\w+ )?on (\w+)/g],
  ['share row exclusive', /\breferences (\w+)/g],
  ['share row exclusive', /\bcreate (?:or replace )?(?:constraint )?trigger \w+ [^;]*? on (\w+)/g],
  ['access exclusive', /\balter (?:table|index) (?:if exists )?(?:only )?(\w+)\b(?! validate )/g],
  ['access exclusive', /\bdrop trigger (?:if exists )?\w+ on (\w+)/g],
]
/** Statements with a list of tables or indexes. */
const lockingLists: [LockMode, RegExp][] = [
  ['access exclusive', /\b(?:drop (?:table|index)|truncate(?: table)?) (?:if exists )?(\w+(?: ?, ?\w+)*)/g],
  ...lockModes.map((mode): [LockMode, RegExp] => [
    mode,
    new RegExp(`\\block table (?:only )?(\\w+(?: ?, ?\\w+)*) in ${mode} mode`, 'g'),
  ]),
]

/** The effects of migrations. An upgrade asks for those of all that are left before each of its steps. */
const knownEffects = new WeakMap<Pick<SqlFile, 'sql'>, MigrationEffects>()

/** Reads what a migration does from its text. A test compares the locks with those that PostgreSQL reports. */
export function readEffects(file: Pick<SqlFile, 'sql'>): MigrationEffects {
  const effects = knownEffects.get(file) ?? effectsOfText(file.sql)
  knownEffects.set(file, effects)
  return effects
}

function effectsOfText(sql: string): MigrationEffects {
  const text = withoutTexts(sql).replace(/\s+/g, ' ').toLowerCase()
  const names = (pattern: RegExp) => Array.from(text.matchAll(pattern), ([, name = '']) => name)
  const locks = new Map<string, LockMode>()
  const lock = (name: string, mode: LockMode) => {
    const known = locks.get(name)
    if (known === undefined || lockModes.indexOf(known) < lockModes.indexOf(mode)) locks.set(name, mode)
  }
  for (const [mode, pattern] of locking) for (const name of names(pattern)) lock(name, mode)
  for (const [mode, pattern] of lockingLists)
    for (const list of names(pattern)) for (const name of list.split(/ ?, ?/)) lock(name, mode)
  return {
    locks,
    reads: new Set(names(/\b(?:from|join) (\w+)/g)),
    dropsReferences: /\bdrop (?:table|column|constraint)\b/.test(text),
    introduced: new Set([
      ...names(/\bcreate (?:or replace )?(?:table|type|view|sequence|function) (?:if not exists )?(\w+)/g),
      ...names(/\badd column (?:if not exists )?(\w+)/g),
      ...names(/\brename (?:column |constraint )?(?:\w+ )?to (\w+)/g),
    ]),
    reshaped: new Set(
      names(
        /\balter table (?:if exists )?(?:only )?(\w+) (?!validate )[^;]*?\b(?:alter|drop|rename|add (?!column ))/g,
      ),
    ),
    redefined: new Set([
      ...names(/\bcreate (?:or replace )?(?:function|view) (\w+)/g),
      ...names(/\bdrop (?:function|view) (?:if exists )?(\w+)/g),
    ]),
    cascades: /\bdrop [^;]*(?<!on delete |on update )\bcascade\b/.test(text),
    commits: /\bcommit ?;|\bindex concurrently\b/.test(text),
    touchesRows:
      /\b(?:update|delete from) (?:only )?\w+|\bselect\b|\bcreate (?:unique )?index\b|\bset not null\b|\badd (?:constraint|check|foreign|unique|primary)\b(?![^;]*not valid)|\balter (?:column )?\w+ (?:set data )?type\b/.test(
        text,
      ),
  }
}

/**
 * Returns the text of a migration for a transaction that must not end, such as that of a restore. There are no other
 * processes then.
 */
export function inOneTransaction(sql: string): string {
  return sql.replace(/\bindex concurrently\b/gi, 'index').replace(/\bcommit\s*;/gi, '')
}

/** Removes comments, strings, and the bodies of functions. The body of `do` stays, because it runs. */
function withoutTexts(sql: string): string {
  return sql.replace(
    /--.*|'(?:[^']|'')*'|(\bdo\s+)?(\$\w*\$)([\s\S]*?)\2/gi,
    (_, isRun: string | undefined, _quote, body = '') => (isRun ? ` ${withoutTexts(body)} ` : " ''"),
  )
}
