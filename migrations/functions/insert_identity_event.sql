-- Trigger function of the view identity_event: inserts an event of the previous release.
create or replace function insert_identity_event() returns trigger language plpgsql as $$
begin
  perform insert_events(jsonb_build_array(to_jsonb(new)));
  return new;
end
$$;
