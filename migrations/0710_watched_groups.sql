-- People can watch all repositories of a group that they may read, also those that come later.
create table watched_group (
  account_id bigint not null references account (id) on delete cascade,
  group_id   bigint not null references repository_group (id) on delete cascade,
  constraint group_is_watched_once primary key (account_id, group_id)
);
create index watchers_of_group on watched_group (group_id, account_id);
comment on table watched_group is 'A row gives no access: a person is told nothing of a repository that they may not read.';
