-- More first segments of other URLs. As before, an older group keeps such a name until it is renamed: its pages stay.
alter table repository_group drop constraint group_name_is_not_the_first_segment_of_another_url;
alter table repository_group add constraint group_name_is_not_the_first_segment_of_another_url
  check (name not in ('-', 'access', 'admin', 'api', 'applications', 'assets', 'device', 'docs', 'explore', 'favicon.ico',
                      'healthz', 'hooks', 'invitations', 'login', 'logout', 'metrics', 'new', 'oauth2', 'password-reset',
                      'readyz', 'robots.txt', 'search', 'settings', 'sign-up', 'status')) not valid;
