-- Trigger function: the first version of a package claims the package's vendor for the group. This also works when a
-- previous release of svc publishes the version.
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
