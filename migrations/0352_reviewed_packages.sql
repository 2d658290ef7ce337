-- The same for one package. A package in a repository with reviewed releases is reviewed, too.
alter table package
  add column release text not null default 'direct'
    constraint package_release_is_direct_or_reviewed check (release in ('direct', 'reviewed'));
