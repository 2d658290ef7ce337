-- Locks an authorization that stands and whose account may act. False when it has ended or the account is disabled.
create or replace function lock_authorization(the_authorization_id bigint) returns boolean
language plpgsql as $$
begin
  perform from account_authorization a join account u on u.id = a.account_id
    where a.id = the_authorization_id and a.ended_at is null and u.disabled_at is null
      for no key update of a;
  return found;
end
$$;
