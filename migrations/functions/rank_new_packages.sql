-- Trigger function: every package has a rank from its first moment, so a list by downloads misses none.
create or replace function rank_new_packages() returns trigger language plpgsql as $$
begin
  insert into package_rank (package_id, repository_id) select id, repository_id from new_rows;
  return null;
end
$$;
