-- Trigger function: writes events about the registration and changes of an application. It also writes them for
-- applications that a migration adds. The details name the changed columns, not their values, because a logo may be
-- large.
create or replace function note_application_event() returns trigger language plpgsql as $$
declare
  changed text[];
begin
  if tg_op = 'INSERT' then
    perform note_identity_event('application-registered', null, new.id,
                                jsonb_build_object('name', new.name, 'status', new.status));
    return null;
  end if;
  if new.status <> old.status then
    perform note_identity_event('application-' || new.status, null, new.id,
                                jsonb_strip_nulls(jsonb_build_object('from', old.status, 'reason', new.status_reason)));
  end if;
  changed := array(select n.key from jsonb_each(to_jsonb(new) - 'status' - 'status_reason') n join jsonb_each(to_jsonb(old)) o using (key)
                    where n.value <> o.value order by 1);
  if cardinality(changed) > 0 then
    perform note_identity_event('application-changed', null, new.id, jsonb_build_object('changed', changed));
  end if;
  return null;
end
$$;
