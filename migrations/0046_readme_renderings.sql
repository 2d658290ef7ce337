-- READMEs that an earlier release rendered are rendered again (DESIGN §8).
alter table version_readme add column rendering smallint not null default 0;
comment on column version_readme.rendering is
  'Which rendering the content comes from. An earlier release writes 0: the page of the version, or the job render-readmes, then renders it again.';
create index old_readmes on version_readme (version_id) where rendering < 1;

insert into job (name, key) select 'render-readmes', '' where exists (select from version_readme);
