-- Marks all documents that replace or provide a name of this vendor as due. Call it when the vendor's claim has
-- changed. It first waits for transactions that store documents of the group's upstreams, and keeps new ones waiting
-- until the change is committed: bind-mirrored-packages shares these rows. Otherwise a document that is being stored
-- would still replace the name, and would not be due.
create or replace function judge_replacements_again(the_group_id bigint, the_vendor text) returns void
language plpgsql as $$
begin
  perform from upstream u join repository r on r.id = u.repository_id
    where r.group_id = the_group_id order by u.id for no key update of u;

  -- This statement begins after the locks are held, so it sees the documents that were stored meanwhile.
  update mirrored_document d set due_at = now()
    from mirrored_package m
    join repository r on r.id = m.repository_id and r.group_id = the_group_id
    join upstream_document u on u.upstream_id = m.upstream_id and u.name = m.name
   where d.package_id = m.id and d.is_dev = u.is_dev and the_vendor = any (u.replaces);
end
$$;
