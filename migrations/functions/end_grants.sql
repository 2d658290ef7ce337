-- Trigger function of account_authorization: the end of an authorization ends its grants, and so its codes and tokens, and
-- what the application knows of the sessions of the account.
create or replace function end_grants() returns trigger language plpgsql as $$
begin
  update authorization_grant set ended_at = new.ended_at where authorization_id = new.id and ended_at is null;
  delete from openid_session where account_id = new.account_id and application_id = new.application_id;
  return null;
end
$$;
