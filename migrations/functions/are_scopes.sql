-- Returns whether this is a non-empty list, without repeats, of the scopes in SPEC 2.4 and of those of OpenID Connect. Only
-- applications get the latter: the forms of tokens do not take them.
create or replace function are_scopes(names text[]) returns boolean
language sql immutable parallel safe as $$
  select cardinality(names) > 0
     and cardinality(names) = (select count(distinct name) from unnest(names) as name)
     and names <@ array[
      'repo-code:r', 'repo-code:rw', 'repo-pr:r', 'repo-pr:rw',
      'repo-issue:r', 'repo-issue:rw', 'repo-notes:r', 'repo-notes:rw',
      'repo-contents:r', 'repo-contents:rw', 'repo-commit-status:r', 'repo-commit-status:rw',
      'repo-svc-trigger:r', 'repo-svc-trigger:rw', 'repo-svc-history:r',
      'repo-svc-detail:r', 'repo-svc-detail:rw', 'repo-basic-info:r',
      'repo-manage:r', 'repo-manage:rw', 'repo-delete:rw',
      'repo-security:r', 'registry-package:r', 'registry-package:rw',
      'registry-package-delete:rw', 'registry-manage:r', 'registry-manage:rw',
      'registry-delete:rw', 'account-profile:r', 'account-profile:rw',
      'account-email:r', 'account-email:rw', 'account-engage:r', 'account-engage:rw',
      'group-resource:r', 'group-resource:rw', 'group-manage:r', 'group-manage:rw',
      'group-delete:r', 'group-delete:rw', 'mission-delete:r', 'mission-delete:rw',
      'mission-manage:r', 'mission-manage:rw',
      'openid', 'profile', 'email'
     ]
$$;
