-- Trigger function: the first version of a package claims the package's vendor for the group. This also works when a
-- previous release of svc publishes the version. Malware flags of an upstream's package of this name leave filter.json:
-- they are not about ours.
create or replace function claim_vendor_of_package() returns trigger language plpgsql as $$
declare
  the_group_id bigint := (select group_id from repository where id = new.repository_id);
begin
  insert into vendor_claim (group_id, vendor) values (the_group_id, split_part(new.name, '/', 1))
  on conflict do nothing;
  perform judge_replacements_again(the_group_id, split_part(new.name, '/', 1));
  if exists (select from mirrored_package m
              where m.repository_id = new.repository_id and m.name = new.name
                and (m.flags <> '[]' or m.summary is not null)) then
    perform render_filter_document(new.repository_id);
  end if;
  return null;
end
$$;
