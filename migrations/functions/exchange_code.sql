-- Exchanges a code for its first token pair (SPEC 4.2). The outcome is:
--   issued          the pair is stored, with the scopes answered
--   invalid_client  nothing was looked at
--   invalid_grant   the code is unknown, expired, or bound to other things than these; it is as good as before
--   replayed        the code was used before; unless that was a moment ago, the pairs that came of it are dead now
create or replace function exchange_code(
  the_client_id text, the_secret_hash bytea, the_code_hash bytea, the_redirect_uri text, the_code_challenge text,
  new_access_hash bytea, new_refresh_hash bytea, access_seconds integer, refresh_seconds integer,
  out outcome text, out scopes text[])
language plpgsql as $$
declare
  the_application_id bigint := authenticate_application(the_client_id, the_secret_hash);
  code record;
begin
  if the_application_id is null then
    outcome := 'invalid_client';
    return;
  end if;

  -- Only the code's own client, with everything the code is bound to, may use it up or be told of a replay.
  select c.authorization_id, c.scopes into code
    from authorization_code c
    join account_authorization a on a.id = c.authorization_id and a.application_id = the_application_id
   where c.code_hash = the_code_hash
     and (the_redirect_uri is null or the_redirect_uri = c.redirect_uri)
     and c.code_challenge is not distinct from the_code_challenge;
  if not found or not lock_authorization(code.authorization_id) then
    outcome := 'invalid_grant';
    return;
  end if;

  update authorization_code
     set redeemed_at = now()
   where code_hash = the_code_hash and redeemed_at is null and expires_at > now();
  if found then
    insert into token_pair (authorization_id, code_hash, access_hash, access_scopes, access_expires_at,
                            refresh_hash, refresh_scopes, refresh_expires_at)
    values (code.authorization_id, the_code_hash, new_access_hash, code.scopes, now() + make_interval(secs => access_seconds),
            new_refresh_hash, code.scopes, now() + make_interval(secs => refresh_seconds));
    outcome := 'issued';
    scopes := code.scopes;
    return;
  end if;

  outcome := 'invalid_grant';
  perform from authorization_code where code_hash = the_code_hash and redeemed_at is not null;
  if found then
    outcome := 'replayed';
    -- Two clicks, or a proxy that sends twice, are no theft: the loser of such a race ends nothing.
    perform from authorization_code
      where code_hash = the_code_hash and redeemed_at > now() - interval '3 seconds';
    if not found then
      update token_pair
         set access_expires_at = least(access_expires_at, now()),
             refresh_expires_at = least(refresh_expires_at, now()),
             sealed_successor = null
       where code_hash = the_code_hash and (refresh_expires_at > now() or access_expires_at > now());
    end if;
  end if;
end
$$;
