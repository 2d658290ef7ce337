-- Whether only trusted publishers publish versions of a package.
alter table package add column only_trusted_publishers boolean not null default false;
comment on column package.only_trusted_publishers is
  'Then no person, no deploy token and no command publishes, releases their own upload, or restores a version.';
