-- Group names that are the first segment of another URL (DESIGN §4): pages have been added. Not validated: a group that
-- already has such a name keeps it until it is renamed.
alter table repository_group drop constraint group_name_is_not_the_first_segment_of_another_url;
alter table repository_group add constraint group_name_is_not_the_first_segment_of_another_url
  check (name not in ('-', 'admin', 'api', 'applications', 'assets', 'docs', 'favicon.ico', 'healthz', 'invitations',
                      'login', 'logout', 'metrics', 'new', 'oauth2', 'password-reset', 'readyz', 'robots.txt',
                      'search', 'settings')) not valid;
