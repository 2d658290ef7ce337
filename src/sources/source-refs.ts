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
  /** The stage through which its version came. Null when its version was published at once. */
  stageId: string | null
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
  stageId: null,
}

/**
 * SQL: tags and branches as they are now. What became of a staged version is read from its stage, because a review does not
 * change the source. A version that was not released is none, so its tag may be moved.
 */
export const currentRefs = `(
  select r.source_id, r.kind, r.name, r.warnings, r.tree, r.is_default, r.package_name, r.version, r.stage_id, r.changed_at,
         case when r.state = 'gone' then 'gone' when f.is_lapsed then 'refused'
              when r.state = 'staged' and s.fate = 'released' then 'published' else r.state end as state,
         case when r.state = 'gone' or not f.is_lapsed then r.reason
              when s.fate = 'rejected' then 'a reviewer rejected it'
              when s.fate = 'expired' then 'nobody released it in time' else 'it was not released' end as reason,
         case when not f.is_lapsed then r.commit_id end as commit_id,
         case when not (f.is_lapsed and r.state = 'moved') then r.seen_commit end as seen_commit
    from source_ref r
    join source o on o.id = r.source_id
    left join staged_version t on t.id = r.stage_id
   cross join lateral (
     select case when r.stage_id is null then 'none'
                 when t.state = 'staged' and t.expires_at <= now() then 'expired'
                 when t.state is not null then t.state
                 -- The stage was deleted, 90 days after its decision.
                 when exists (select from package p join package_version v on v.package_id = p.id
                               where p.repository_id = o.repository_id and p.name = r.package_name
                                 and v.version = r.version and v.publisher_run ->> 'commit' = r.commit_id) then 'released'
                 else 'unknown' end as fate) s
   cross join lateral (select s.fate in ('rejected', 'expired', 'unknown') as is_lapsed) f
) r`

const columns = `kind, name, state, reason, warnings, commit_id as "commit", seen_commit as "seenCommit", tree,
  is_default as "isDefault", package_name as "packageName", version, stage_id as "stageId", changed_at as "changedAt"`

/** Lists all tags and branches of a source. */
export async function listAllRefs(db: Queryable, sourceId: string): Promise<SourceRef[]> {
  const { rows } = await db.query<SourceRef>(`select ${columns} from ${currentRefs} where source_id = $1`, [
    sourceId,
  ])
  return rows
}

/** Returns the value with which a list of `listRefs` continues after a tag or branch. */
export function keyOfRef({ kind, name }: Pick<SourceRef, 'kind' | 'name'>): string {
  return `${kind}/${name}`
}

/** Lists tags and branches of a source, or those in one state: branches first, by name. `after` is a value of `keyOfRef`. */
export async function listRefs(
  db: Queryable,
  sourceId: string,
  { after, limit }: ListPart,
  state: RefState | null = null,
): Promise<SourceRef[]> {
  const [, kind = null, name = null] = /^(tag|branch)\/(.+)$/s.exec(after ?? '') ?? []
  const { rows } = await db.query<SourceRef>(
    `select ${columns} from ${currentRefs}
      where source_id = $1 and ($2::text is null or (kind, name collate "C") > ($2, $3)) and ($5::text is null or state = $5)
      order by kind, name collate "C" limit $4`,
    [readRowId(sourceId), kind, name, limit, state],
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
                             package_name, version, stage_id)
     select s.id, r.kind, r.name, r.state, r.reason, r.warnings, r."commit", r."seenCommit", r.tree, r."isDefault",
            r."packageName", r.version, r."stageId"
       from jsonb_to_recordset($2) as r (kind text, name text, state text, reason text, warnings text[], "commit" text,
                                         "seenCommit" text, tree text, "isDefault" boolean, "packageName" text, version text,
                                         "stageId" bigint),
            source s
      where s.id = $1 and s.removed_at is null
     on conflict (source_id, kind, name) do update
        set state = excluded.state, reason = excluded.reason, warnings = excluded.warnings, commit_id = excluded.commit_id,
            seen_commit = excluded.seen_commit, tree = excluded.tree, is_default = excluded.is_default,
            package_name = excluded.package_name, version = excluded.version, stage_id = excluded.stage_id,
            changed_at = now()`,
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

/** Lets the next reading judge refused tags and branches again, but not those that a reviewer has rejected. */
export async function forgetRefusals(db: Queryable, sourceId: string): Promise<void> {
  await db.query(
    `update source_ref set seen_commit = null
      where source_id = $1 and (kind, name) in (
        select r.kind, r.name from ${currentRefs}
          left join staged_version t on t.id = r.stage_id
         where r.source_id = $1 and r.state = 'refused' and t.state is distinct from 'rejected')`,
    [sourceId],
  )
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
