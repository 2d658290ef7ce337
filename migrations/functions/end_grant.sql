-- Ends one live grant: its codes and tokens are dead then, and the application loses the sessions that it has signed in with
-- the grant. Other grants of the application stay. The end of the last one ends the authorization. Writes the event. Returns
-- null when the grant has ended before, or is not of this account; an account of null stands for any. Otherwise whether the
-- authorization has ended, too. redeem_codes describes the order of locks.
create or replace function end_grant(the_grant_id bigint, the_account_id bigint, the_actor jsonb) returns boolean
language plpgsql as $$
declare
  given authorization_grant;
  is_last boolean;
begin
  -- The lock orders this end and a new grant, so that one of them sees the other.
  perform from account_authorization
    where id = (select authorization_id from authorization_grant where id = the_grant_id)
      and account_id = coalesce(the_account_id, account_id) and ended_at is null
    for no key update;
  if not found then
    return null;
  end if;
  update authorization_grant set ended_at = now() where id = the_grant_id and ended_at is null returning * into given;
  if not found then
    return null;
  end if;
  is_last := not exists (select from authorization_grant
                          where authorization_id = given.authorization_id and ended_at is null);
  if is_last then
    update account_authorization set ended_at = now() where id = given.authorization_id;
  else
    delete from openid_session
     where account_id = given.account_id and application_id = given.application_id
       and (grant_id = given.id or (grant_id is null and 'openid' = any (given.scopes)));
  end if;
  perform insert_events(
    jsonb_build_array(jsonb_build_object(
      'action', case when is_last then 'authorization-withdrawn' else 'grant-ended' end,
      'account_id', given.account_id, 'application_id', given.application_id,
      'details', case when is_last then '{}' else jsonb_build_object('kind', grant_kind(given)) end)),
    the_actor);
  return is_last;
end
$$;
