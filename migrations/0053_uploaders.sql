-- Who published a version (DESIGN 1): a deleted account stays known as "deleted account", and a deploy token has a name.
alter table package_version drop constraint package_version_uploader_id_fkey;
drop index package_version_uploader_id_idx;
alter table package_version add column deploy_token_id bigint;

comment on column package_version.uploader_id is
  'The account that published it. Not a foreign key, so that it outlives the account; ids are never used again.';
comment on column package_version.deploy_token_id is 'The deploy token that published it; null for any other token.';
