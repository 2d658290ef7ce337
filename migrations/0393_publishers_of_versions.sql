-- The CI job that published a version with a token of a trusted publisher.
alter table package_version add column publisher_run jsonb;
comment on column package_version.publisher_run is
  'The run of the publisher''s token: provider, project, workflow, ref, commit and url. Null for any other token, and for versions of earlier releases.';
