-- An earlier release kept the malware flags of names that an upstream released. No upstream says them any more.
do $$
declare
  repository_ids bigint[];
  the_repository_id bigint;
begin
  with unflagged as (
    update mirrored_package set flags = '[]', summary = null
     where upstream_id is null and (flags <> '[]' or summary is not null)
    returning repository_id
  )
  select coalesce(array_agg(distinct repository_id), '{}') into repository_ids from unflagged;
  foreach the_repository_id in array repository_ids loop
    perform render_filter_document(the_repository_id);
  end loop;
end
$$;
