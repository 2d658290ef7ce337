-- Removes malware flags that outlived their upstream (COMPOSER A8): those of names that it released, and its summary of
-- names that another upstream has taken over, when that one has no summary to replace it with.
do $$
declare
  package_ids bigint[];
  the_repository_id bigint;
begin
  -- The same order as that of the statement that binds names.
  select array_agg(id) into package_ids
    from (select m.id
            from mirrored_package m left join upstream u on u.id = m.upstream_id
           where (m.upstream_id is null and m.flags <> '[]')
              or (m.summary is not null and u.root ->> 'filterSummaryUrl' is null)
           order by m.repository_id, m.name for no key update of m) wrong;

  update mirrored_package set summary = null, flags = case when upstream_id is null then '[]' else flags end
   where id = any (package_ids);
  update mirrored_document set due_at = now() where package_id = any (package_ids);
  for the_repository_id in
    select distinct repository_id from mirrored_package where id = any (package_ids) order by 1
  loop
    perform render_filter_document(the_repository_id);
  end loop;
end
$$;
