-- Counts the packages of upstreams of a repository that wait for a decision of its admins.
create or replace function count_waiting(the_repository_id bigint) returns integer
language sql stable as $$
  select count(distinct package_id)::int from waiting_package where repository_id = the_repository_id
$$;
