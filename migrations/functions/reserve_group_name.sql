-- Trigger function: reserves the former name of a renamed or deleted group. Only the same group may take it back. Until
-- the group is deleted, the name leads to it. The reservation ends after 90 days if the group never had a package.
create or replace function reserve_group_name() returns trigger language plpgsql as $$
declare
  has_published constant boolean :=
    old.has_published
    or exists (select from repository r join package p on p.repository_id = r.id where r.group_id = old.id)
    or exists (select from repository r join mirrored_package m on m.repository_id = r.id where r.group_id = old.id);
begin
  delete from reserved_group_name where reserved_until < now();
  insert into reserved_group_name (name, group_id, reserved_until)
  values (old.name, old.id, case when has_published then 'infinity' else now() + interval '90 days' end)
  on conflict (name) do update set group_id = excluded.group_id, reserved_until = excluded.reserved_until;
  return null;
end
$$;
