-- Trigger function: a name that becomes bound to an upstream gets the entry of that upstream's summary of malware. This
-- also works when a previous release of svc binds the name.
create or replace function flag_bound_package() returns trigger language plpgsql as $$
begin
  -- The binding shares the row of the upstream, and a new summary locks it. This statement begins after that, so it sees
  -- a summary for which the binding has waited.
  update mirrored_package m set summary = f.constraints
    from upstream_flag f
   where m.id = new.id and f.upstream_id = new.upstream_id and f.name = new.name
     and m.summary is distinct from f.constraints;
  if found then
    perform render_filter_document(new.repository_id);
  end if;
  return null;
end
$$;
