-- Decides where a package of a repository comes from. Every request calls it, so that a change takes effect at once.
--   own         the repository has a package of this name, or had one before
--   claimed     the group has claimed the vendor
--   denied      no upstream may offer it, or it is bound to an upstream that may not offer it
--   unapproved  the first upstream for this name offers only approved packages
--   upstream    upstream_ids lists the upstreams to ask, in this order; for a bound name only its own upstream
create or replace function package_origin(the_repository_id bigint, the_name text)
returns table (verdict text, package_id bigint, is_bound boolean, upstream_ids bigint[])
language sql stable as $$
  with known as materialized (
    select m.id, m.upstream_id, m.approved_at is not null as is_approved
      from (values (true)) as one (is_one)
      left join mirrored_package m on m.repository_id = the_repository_id and m.name = the_name
  ), offering as materialized (
    select u.id, u.position,
           u.mode = 'approved' and (select k.is_approved from known k where k.id is not null) is not true as waits
      from upstream u
     where u.repository_id = the_repository_id and u.removed_at is null and u.mode <> 'off'
       and (u.allow = '{}' or matches_pattern(the_name, u.allow)) and not is_denied_by(the_name, u.deny)
       and u.id = coalesce((select k.upstream_id from known k), u.id)
  ), asked as (
    select array(select o.id from offering o
                  where (o.position, o.id) < all (select w.position, w.id from offering w where w.waits)
                  order by o.position, o.id) as ids
  )
  select case
           when exists (select from package p where p.repository_id = the_repository_id and p.name = the_name) then 'own'
           when exists (select from vendor_claim c join repository r on r.group_id = c.group_id
                         where r.id = the_repository_id and c.vendor = split_part(the_name, '/', 1)
                           and not matches_pattern(the_name, c.exceptions)) then 'claimed'
           when not exists (select from offering) then 'denied'
           when cardinality(asked.ids) = 0 then 'unapproved'
           else 'upstream'
         end,
         known.id, known.upstream_id is not null, asked.ids
    from known, asked
$$;
