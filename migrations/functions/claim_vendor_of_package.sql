-- Trigger function: publishing the first version of a package claims its vendor for the group, also when a previous
-- release of svc publishes it.
create or replace function claim_vendor_of_package() returns trigger language plpgsql as $$
declare
  the_group_id bigint := (select group_id from repository where id = new.repository_id);
begin
  insert into vendor_claim (group_id, vendor) values (the_group_id, split_part(new.name, '/', 1))
  on conflict do nothing;
  perform judge_replacements_again(the_group_id, split_part(new.name, '/', 1));
  return null;
end
$$;
