-- Returns what a grant is for its account: 'device' for the login of a device or command line, 'sign-in' for one with svc in a
-- browser, or 'access' for what the application may use while the person is away.
create or replace function grant_kind(the_grant authorization_grant) returns text language sql immutable parallel safe as $$
  select case when the_grant.device_ip is not null then 'device'
              when 'openid' = any (the_grant.scopes) then 'sign-in'
              else 'access' end
$$;
