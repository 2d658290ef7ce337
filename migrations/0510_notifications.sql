-- Notifications: what people want to be told by mail, and the events that they are told about.
create table notification_choice (
  account_id  bigint not null references account (id) on delete cascade,
  topic       text not null constraint notification_topic_is_known
              check (topic in ('releases', 'approvals', 'alarms', 'advisories', 'tokens')),
  delivery    text not null constraint notification_is_off_or_at_once_or_daily
              check (delivery in ('off', 'at_once', 'daily')),
  since_round bigint not null,
  constraint person_chooses_once_for_a_topic primary key (account_id, topic)
);
comment on table notification_choice is 'Without a row, a person is told at once.';
comment on column notification_choice.since_round is 'The last round before the choice. The digest tells what came later.';

create table digest (
  account_id bigint primary key references account (id) on delete cascade,
  hour       smallint not null constraint digest_hour_is_one_of_a_day check (hour between 0 and 23),
  told_round bigint not null,
  due_at     timestamptz not null
);
create index digest_due on digest (due_at);
comment on table digest is 'The one mail a day of each person who has changed a choice. Topics that are daily are told in it.';
comment on column digest.hour is 'When it is sent, in UTC.';
comment on column digest.told_round is 'The last round that a digest had, or that came before the first one.';

create table watched_repository (
  account_id    bigint not null references account (id) on delete cascade,
  repository_id bigint not null references repository (id) on delete cascade,
  constraint repository_is_watched_once primary key (account_id, repository_id)
);
create index watchers_of_repository on watched_repository (repository_id, account_id);
comment on table watched_repository is 'A row gives no access: who may no longer read the repository is told nothing of it.';

create table news (
  event_id      bigint primary key,
  action        text not null,
  repository_id bigint,
  group_id      bigint,
  account_id    bigint,
  actor_id      bigint,
  noted_at      timestamptz not null default now(),
  round         bigint
);
create index news_waiting on news (noted_at) where round is null;
create index news_of_round on news (round) where round is not null;
create index news_by_age on news (noted_at);
comment on table news is 'Events that people are told about. insert_events adds them in the transaction of the event.';
comment on column news.event_id is 'No foreign key: events have their own retention.';
comment on column news.account_id is 'The account that the event is about.';
comment on column news.actor_id is 'The person who did it in a browser or with a command, and is not told. Null if everybody is.';
comment on column news.round is 'The round in which people are told. Null while it waits: more of the same may follow.';

create table news_round (
  last bigint not null
);
create unique index there_is_one_last_round on news_round ((true));
insert into news_round (last) values (0);
comment on table news_round is 'One row: its lock decides whether a choice comes before or after a round.';
