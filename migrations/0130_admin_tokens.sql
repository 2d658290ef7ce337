-- Personal access tokens for site administration. No other token carries the right of a site administrator, whoever its
-- owner is. A token of before keeps its scopes, without that right. An admin token ends when its owner loses the role.
alter table personal_token
  add column is_admin boolean not null default false,
  add constraint admin_token_is_for_all_repositories check (not is_admin or resource_scope = 'all');
comment on column personal_token.is_admin is 'Made for site administration. It carries the right of its owner, who is a site administrator.';

create function end_admin_tokens() returns trigger language plpgsql as 'begin return null; end';
create trigger account_changes_role
  after update of is_admin on account
  for each row when (old.is_admin <> new.is_admin)
  execute function end_admin_tokens();
