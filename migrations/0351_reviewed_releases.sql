-- Whether versions are published at once, or staged until a developer releases them.
alter table repository
  add column release text not null default 'direct'
    constraint repository_release_is_direct_or_reviewed check (release in ('direct', 'reviewed')),
  add column two_people boolean not null default false;
comment on column repository.two_people is 'Whether nobody releases alone what they staged themselves.';
