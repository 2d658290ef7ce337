-- Trigger function: gives every new package a rank at once, so that a list by downloads contains it.
create or replace function rank_new_packages() returns trigger language plpgsql as $$
begin
  insert into package_rank (package_id, repository_id) select id, repository_id from new_rows;
  return null;
end
$$;
