-- Trigger function: keeps who set the status of an application, and when. A pending application was not reviewed yet.
create or replace function note_application_review() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' and new.status = old.status then
    return new;
  end if;
  new.reviewed_at := case when new.status <> 'pending' then now() end;
  new.reviewer_id := case when new.status <> 'pending' then
    (nullif(current_setting('svc.actor', true), '')::jsonb ->> 'accountId')::bigint end;
  return new;
end
$$;
