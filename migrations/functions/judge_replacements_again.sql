-- Marks all documents that replace or provide a name of this vendor as due. Call it when the vendor's claim has
-- changed.
create or replace function judge_replacements_again(the_group_id bigint, the_vendor text) returns void
language sql as $$
  update mirrored_document d set due_at = now()
    from mirrored_package m
    join repository r on r.id = m.repository_id and r.group_id = the_group_id
    join upstream_document u on u.upstream_id = m.upstream_id and u.name = m.name
   where d.package_id = m.id and d.is_dev = u.is_dev and the_vendor = any (u.replaces)
$$;
