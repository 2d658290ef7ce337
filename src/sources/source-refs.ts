import type { Queryable } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import { readRowId } from '../domain/row-id.ts'
import type { RemoteRef } from './git.ts'

export const refStates = ['published', 'staged', 'skipped', 'refused', 'moved', 'gone'] as const

/**
 * What became of a tag or branch:
 * - `published` or `staged`: a version;
 * - `skipped`: its name is not one of a version;
 * - `refused`: the version was not accepted;
 * - `moved`: the tag names another commit than the one that was published, which stays;
 * - `gone`: it is not there any more.
 */
export type RefState = (typeof refStates)[number]

/** A tag or branch of a source. */
export interface SourceRef {
  kind: RemoteRef['kind']
  name: string
  state: RefState
  /** Why it is no version, or not the one of its commit. */
  reason: string | null
  warnings: string[]
  /** The commit of its version. Null when it has none. */
  commit: string | null
  /** The commit that was judged last. */
  seenCommit: string | null
  /** The tree of the source's folder at the commit. */
  tree: string | null
  /** Whether the version is marked as the default branch. */
  isDefault: boolean
  packageName: string | null
  version: string | null
  changedAt: Date
}

/** A tag or branch about which nothing is stored. */
export const newRef: Omit<SourceRef, 'kind' | 'name' | 'changedAt'> = {
  state: 'skipped',
  reason: null,
  warnings: [],
  commit: null,
  seenCommit: null,
  tree: null,
  isDefault: false,
  packageName: null,
  version: null,
}

const columns = `kind, name, state, reason, warnings, commit_id as "commit", seen_commit as "seenCommit", tree,
  is_default as "isDefault", package_name as "packageName", version, changed_at as "changedAt"`

/** Lists all tags and branches of a source. */
export async function listAllRefs(db: Queryable, sourceId: string): Promise<SourceRef[]> {
  const { rows } = await db.query<SourceRef>(`select ${columns} from source_ref where source_id = $1`, [
    sourceId,
  ])
  return rows
}

/** Returns the value with which a list of `listRefs` continues after a tag or branch. */
export function keyOfRef({ kind, name }: Pick<SourceRef, 'kind' | 'name'>): string {
  return `${kind}/${name}`
}

/** Lists tags and branches of a source: branches first, by name. `after` is a value of `keyOfRef`. */
export async function listRefs(
  db: Queryable,
  sourceId: string,
  { after, limit }: ListPart,
): Promise<SourceRef[]> {
  const [, kind = null, name = null] = /^(tag|branch)\/(.+)$/s.exec(after ?? '') ?? []
  const { rows } = await db.query<SourceRef>(
    `select ${columns} from source_ref
      where source_id = $1 and ($2::text is null or (kind, name collate "C") > ($2, $3))
      order by kind, name collate "C" limit $4`,
    [readRowId(sourceId), kind, name, limit],
  )
  return rows
}

/** Stores what became of tags and branches. Does nothing once the source was removed. */
export async function saveRefs(
  db: Queryable,
  sourceId: string,
  refs: readonly Omit<SourceRef, 'changedAt'>[],
): Promise<void> {
  if (refs.length === 0) return
  await db.query(
    `insert into source_ref (source_id, kind, name, state, reason, warnings, commit_id, seen_commit, tree, is_default,
                             package_name, version)
     select s.id, r.kind, r.name, r.state, r.reason, r.warnings, r."commit", r."seenCommit", r.tree, r."isDefault",
            r."packageName", r.version
       from jsonb_to_recordset($2) as r (kind text, name text, state text, reason text, warnings text[], "commit" text,
                                         "seenCommit" text, tree text, "isDefault" boolean, "packageName" text, version text),
            source s
      where s.id = $1 and s.removed_at is null
     on conflict (source_id, kind, name) do update
        set state = excluded.state, reason = excluded.reason, warnings = excluded.warnings, commit_id = excluded.commit_id,
            seen_commit = excluded.seen_commit, tree = excluded.tree, is_default = excluded.is_default,
            package_name = excluded.package_name, version = excluded.version, changed_at = now()`,
    [sourceId, JSON.stringify(refs)],
  )
}

/** Forgets tags and branches that have no version. */
export async function deleteRefs(
  db: Queryable,
  sourceId: string,
  refs: readonly Pick<SourceRef, 'kind' | 'name'>[],
): Promise<void> {
  if (refs.length === 0) return
  await db.query(
    `delete from source_ref r using unnest($2::text[], $3::text[]) as g (kind, name)
      where r.source_id = $1 and r.kind = g.kind and r.name = g.name`,
    [sourceId, refs.map(({ kind }) => kind), refs.map(({ name }) => name)],
  )
}

/** Lets the next reading judge refused tags and branches again. */
export async function forgetRefusals(db: Queryable, sourceId: string): Promise<void> {
  await db.query(`update source_ref set seen_commit = null where source_id = $1 and state = 'refused'`, [
    sourceId,
  ])
}

/** A Git repository renames its package seldom. With more names it could keep other sources from theirs. */
const maxPackages = 20

/**
 * Gives a source a package, unless another source has it. This one statement decides. Returns false when another source has
 * it, and when the source was removed.
 */
export async function assignToSource(db: Queryable, sourceId: string, packageName: string): Promise<boolean> {
  const { rows } = await db.query<{ isOwn: boolean }>(
    `insert into source_package as p (repository_id, package_name, source_id)
     select repository_id, $2, id from source s
      where id = $1 and removed_at is null
        and ((select count(*) from source_package where source_id = $1) < ${maxPackages}
             or exists (select from source_package where source_id = $1 and package_name = $2))
     on conflict (repository_id, package_name) do update set source_id = p.source_id
     returning source_id = $1 as "isOwn"`,
    [sourceId, packageName],
  )
  return rows[0]?.isOwn === true
}
