-- Returns what retention rules do now with the versions of a repository, or of one of its packages: `delete` or `purge`, and
-- otherwise why the version stays. A null rule judges nothing. `place` counts the development versions of a package that the
-- rule may delete, from the one that changed last.
--
-- A locked package is written before the lock that names it, so a lock that is being sent counts, too: its rows are at most
-- a week old then.
create or replace function judge_retention(
  the_repository_id bigint, the_package_id bigint, keep_development integer, deleted_archives_days integer)
  returns table (version_id bigint, package_name text, version text, verdict text, place bigint, changed_at timestamptz,
                 deleted_at timestamptz)
  language sql stable as $$
  with found as (
    select v.id, v.package_id, p.name, v.version, v.normalized, v.published_at, v.deleted_at, v.retired_at, v.quarantined_at,
           -- The names that Composer does not take for feature branches, lines such as 1.x-dev, and releases such as
           -- 20240501.0.0, which Composer cannot read.
           v.version ~ '^dev-(master|main|latest|next|current|support|tip|trunk|default|develop)$'
           or v.version ~ '^v?\d+(\.\d+)*\.x-dev$' or v.version ~ '^v?(\d+\.){3}\d+-dev$'
           or v.version ~ '^\d+\.\d+\.\d+(\+|$)'
           or coalesce(readable_json(v.metadata) ->> 'default-branch' = 'true', false) as is_lasting
      from package p join package_version v on v.package_id = p.id
     where p.repository_id = the_repository_id and (the_package_id is null or p.id = the_package_id) and v.purged_at is null
       and (v.deleted_at is null and v.is_dev and keep_development is not null
            or v.deleted_at is not null and deleted_archives_days is not null)
  ), ranked as (
    select f.*, case when f.deleted_at is null and not f.is_lasting
                     then count(*) filter (where f.deleted_at is null and not f.is_lasting)
                            over (partition by f.package_id order by f.published_at desc, f.id desc) end as place
      from found f
  ), ripe as (
    select r.*, case when r.deleted_at is not null
                     then case when r.deleted_at > now() - make_interval(days => deleted_archives_days) then 'recent' end
                     when r.is_lasting then 'lasting'
                     when r.place <= keep_development then 'newest' end as early
      from ranked r
  )
  select r.id, r.name, r.version,
         case when r.early is not null then r.early
              when r.quarantined_at is not null then 'quarantined'
              when r.deleted_at is null and r.retired_at is not null then 'restored'
              when exists (select from locked_package l
                            where l.name = r.name and l.normalized = r.normalized
                              and (l.used_on >= current_date - 8
                                   or exists (select from project_lock k where k.packages @> array[l.id]))) then 'project'
              when r.deleted_at is null then 'delete'
              else 'purge' end,
         r.place, r.published_at, r.deleted_at
    from ripe r
$$;
