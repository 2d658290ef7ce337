-- Trigger function: writes events about the registration, the changes and the deletion of an application. It also writes
-- them for what a migration does. The details have the changed values and, under "from", the former ones, except
-- those of a logo, which may be large.
create or replace function note_application_event() returns trigger language plpgsql as $$
declare
  changed text[];
  details jsonb;
begin
  if tg_op = 'INSERT' then
    perform note_identity_event('application-registered', null, new.id,
                                jsonb_build_object('name', new.name, 'status', new.status));
    return null;
  end if;
  if tg_op = 'DELETE' then
    perform note_identity_event('application-deleted', null, old.id,
                                jsonb_build_object('name', old.name, 'client_id', old.client_id));
    return null;
  end if;
  if new.status <> old.status then
    perform note_identity_event('application-' || new.status, null, new.id,
                                jsonb_strip_nulls(jsonb_build_object('from', old.status, 'reason', new.status_reason)));
  end if;
  changed := array(select n.key from jsonb_each(to_jsonb(new) - array['status', 'status_reason', 'reviewer_id', 'reviewed_at']) n join jsonb_each(to_jsonb(old)) o using (key)
                    where n.value <> o.value order by 1);
  if cardinality(changed) > 0 then
    select jsonb_object_agg(n.key, n.value) || jsonb_build_object('from', jsonb_object_agg(n.key, o.value))
      into details
      from jsonb_each(to_jsonb(new) - 'logo') n join jsonb_each(to_jsonb(old)) o using (key)
     where n.key = any (changed)
    having count(*) > 0;
    perform note_identity_event('application-changed', null, new.id,
                                jsonb_build_object('changed', changed) || coalesce(details, '{}'));
  end if;
  return null;
end
$$;
