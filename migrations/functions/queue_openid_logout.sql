-- Trigger function of openid_session. A row is deleted with its session, and when the authorization of the application ends.
-- An application that wants to know gets a logout token (OPENID 258): this queues the job that sends it.
create or replace function queue_openid_logout() returns trigger language plpgsql as $$
begin
  with queued as (
    insert into openid_logout (application_id, account_id, sid)
    select id, old.account_id, old.sid from application
     where id = old.application_id and backchannel_logout_uri is not null
    returning id
  )
  insert into job (name, key, data)
  select 'send-logout-token', id::text, jsonb_build_object('logoutId', id::text) from queued;
  return null;
end
$$;
