-- Adds a grant, one act of consent, to the account's authorization of the application. Earlier grants do not change.
create or replace function add_grant(
  the_account_id bigint, the_application_id bigint, the_scopes text[], the_resource_scope resource_scope,
  the_repository_ids bigint[], the_resources text[]
) returns authorization_grant
language plpgsql as $$
declare
  -- How many grants of one public client an account may have. Each program on each machine has its own.
  max_of_public_client constant integer := 20;
  the_authorization_id bigint;
  the_grant_id         bigint;
  is_first             boolean;
  former               authorization_grant;
  granted              authorization_grant;
begin
  -- The lock on the authorization orders this grant and a withdrawal. So a withdrawal either comes first, or also ends
  -- this grant.
  insert into account_authorization (account_id, application_id)
  values (the_account_id, the_application_id)
  on conflict (account_id, application_id) where ended_at is null do update set granted_at = now()
  returning id, xmax = 0 into the_authorization_id, is_first;

  -- A grant without a time may hold several acts of consent of an earlier release, so it is not compared.
  select g.* into former
    from authorization_grant g
   where g.authorization_id = the_authorization_id and g.ended_at is null and g.granted_at is not null
   order by g.id desc
   limit 1;

  -- The first grant has the id of its authorization. So it also owns a code that a process of the previous release
  -- issues.
  the_grant_id := case when is_first then the_authorization_id else nextval('account_authorization_id_seq') end;
  insert into authorization_grant (id, authorization_id, account_id, application_id, scopes, resource_scope, repository_ids,
                                   resources)
  values (the_grant_id, the_authorization_id, the_account_id, the_application_id, the_scopes, the_resource_scope,
          the_repository_ids, the_resources)
  returning * into granted;
  perform note_identity_event('consent-given', the_account_id, the_application_id,
                              jsonb_build_object('scopes', granted.scopes, 'resource_scope', granted.resource_scope));
  if former.id is not null and covers_grant(former, granted) and not covers_grant(granted, former) then
    perform note_identity_event('consent-narrowed', the_account_id, the_application_id,
                                jsonb_build_object('from', describe_grant(former), 'to', describe_grant(granted)));
  end if;

  -- These get no more codes: a repeated request gets one of the newest grant with its resource scope.
  insert into superseded_grant (grant_id)
  select g.id
    from authorization_grant g
   where g.authorization_id = the_authorization_id and g.id < the_grant_id and g.ended_at is null
     and g.resource_scope = granted.resource_scope and covers_grant(granted, g)
  on conflict do nothing;

  -- The page of a public client is shown each time, so its grants would grow without end (OPENID 210).
  if (select is_public from application where id = the_application_id) then
    update authorization_grant
       set ended_at = now()
     where id in (select g.id
                    from authorization_grant g
                   where g.authorization_id = the_authorization_id and g.ended_at is null
                   -- The last use is stored some seconds later, for many grants at once. So the exchange of a new grant's
                   -- code counts.
                   order by coalesce((select max(c.redeemed_at)
                                        from authorization_code c
                                       where c.authorization_id = the_authorization_id
                                         and coalesce(c.grant_id, c.authorization_id) = g.id
                                         and c.redeemed_at > now() - interval '10 minutes'),
                                     g.last_used_at, g.granted_at) desc, g.id desc
                  offset max_of_public_client);
  end if;
  return granted;
end
$$;
