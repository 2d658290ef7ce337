-- The summaries of malware of upstreams, with names that are not bound yet (COMPOSER A8). The first binding of a name
-- applies its entry.
create table upstream_flag (
  upstream_id bigint not null references upstream (id) on delete cascade,
  name        text not null,
  constraints text not null,
  primary key (upstream_id, name)
);
comment on column upstream_flag.constraints is 'The versions that the summary flags, as one constraint.';

-- An empty function for the triggers. The definition is in functions/.
create function flag_bound_package() returns trigger language plpgsql as $$
begin
  return null;
end
$$;
create trigger new_package_is_flagged after insert on mirrored_package
  for each row when (new.upstream_id is not null) execute function flag_bound_package();
create trigger bound_package_is_flagged after update of upstream_id on mirrored_package
  for each row when (old.upstream_id is null and new.upstream_id is not null) execute function flag_bound_package();
