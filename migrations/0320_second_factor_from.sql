-- A group can require a second factor after a grace period. Mails tell its members twice before the period ends.
alter table repository_group add column second_factor_from timestamptz;
comment on column repository_group.second_factor_from is
  'When requires_second_factor begins to take roles; null in groups of earlier releases, whose members need one now.';

create table second_factor_notice (
  id            bigint generated always as identity primary key,
  account_id    bigint not null references account (id) on delete cascade,
  group_id      bigint references repository_group (id) on delete cascade,
  required_from timestamptz not null,
  announced_at  timestamptz not null default now(),
  reminded_at   timestamptz
);
create unique index second_factor_notice_of_account
  on second_factor_notice (account_id, coalesce(group_id, 0), required_from);
create index on second_factor_notice (group_id);
create index on second_factor_notice (required_from);
comment on table second_factor_notice is
  'The mails to accounts without a second factor before one is required: one at the announcement, one reminder.';
comment on column second_factor_notice.group_id is 'Null when the site requires it.';
