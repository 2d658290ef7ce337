-- Decides where a package of a repository comes from (UPSTREAMS 1, 2). Every request calls it, so that a change takes effect at once.
--   own         the repository has a package of this name, or had one before
--   claimed     the group has claimed the vendor
--   denied      no upstream may offer it, or it is bound to an upstream that may not offer it
--   unapproved  the first upstream for this name offers only approved packages
--   contested   it is bound to an upstream, and one before it in the order has the name too: an admin must decide
--   upstream    upstream_ids lists the upstreams to ask, in this order; for a bound name only its own upstream
create or replace function package_origin(the_repository_id bigint, the_name text)
returns table (verdict text, package_id bigint, is_bound boolean, upstream_ids bigint[])
language sql stable as $$
  select case
           when exists (select from package p where p.repository_id = the_repository_id and p.name = the_name) then 'own'
           when exists (select from vendor_claim c join repository r on r.group_id = c.group_id
                         where r.id = the_repository_id and c.vendor = split_part(the_name, '/', 1)
                           and not matches_pattern(the_name, c.exceptions)) then 'claimed'
           when offering.ids is null then 'denied'
           when offering.ids[1] is null then 'unapproved'
           when exists (select from open_contest c where c.package_id = known.id) then 'contested'
           else 'upstream'
         end,
         known.id, known.upstream_id is not null,
         coalesce(offering.ids[:coalesce(array_position(offering.ids, null) - 1, cardinality(offering.ids))], '{}')
    from (values (true)) as one (is_one)
    left join mirrored_package known on known.repository_id = the_repository_id and known.name = the_name
   cross join lateral (
      -- The upstreams that offer the name. Null stands for one that waits for an approval. No upstream after it is asked.
      select array_agg(case when u.mode <> 'approved' or known.approved_at is not null then u.id end
                       order by u.position, u.id) as ids
        from upstream u
       where u.repository_id = the_repository_id and u.removed_at is null and u.mode <> 'off'
         and may_offer(the_name, u.allow, u.deny) and u.id = coalesce(known.upstream_id, u.id)
    ) offering
$$;
