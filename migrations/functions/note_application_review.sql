-- Trigger function: keeps who set the status of an application, and when. A pending application was not reviewed yet, and one
-- that was made from a client metadata document without a review was not, either.
create or replace function note_application_review() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' and new.status = old.status and new.is_unreviewed = old.is_unreviewed then
    return new;
  end if;
  new.reviewed_at := case when new.status <> 'pending' and not new.is_unreviewed then now() end;
  new.reviewer_id := case when new.status <> 'pending' and not new.is_unreviewed then
    (nullif(current_setting('svc.actor', true), '')::jsonb ->> 'accountId')::bigint end;
  return new;
end
$$;
