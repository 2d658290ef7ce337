-- Trigger function: refuses a new name that is the first segment of another URL, or reserved for another group. It runs
-- after the row is written, because only then a concurrent rename or deletion is visible. An older group keeps its name.
create or replace function refuse_reserved_group_name() returns trigger language plpgsql as $$
begin
  if new.name in ('-', 'access', 'admin', 'api', 'applications', 'assets', 'device', 'docs', 'explore', 'favicon.ico',
                  'healthz', 'hooks', 'invitations', 'login', 'logout', 'metrics', 'new', 'oauth2', 'password-reset',
                  'readyz', 'robots.txt', 'search', 'settings', 'sign-up', 'status', 'unsubscribe') then
    raise check_violation using constraint = 'group_name_is_not_the_first_segment_of_another_url',
      message = 'other URLs start with the name';
  end if;
  if exists (select from reserved_group_name
              where name = new.name and group_id <> new.id and reserved_until > now()) then
    raise unique_violation using constraint = 'group_name_is_reserved',
      message = 'the name belonged to another group';
  end if;
  return null;
end
$$;
