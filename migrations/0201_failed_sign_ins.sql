-- Failed sign-ins have one event for each account, network and hour, which counts them. Unlogged, like auth_failure: a
-- crash only starts another event.
create unlogged table failed_sign_in (
  account_id bigint not null,
  network    text not null check (char_length(network) <= 100),
  hour       timestamptz not null,
  event_id   bigint not null,
  attempts   integer not null default 1,
  primary key (account_id, network, hour)
);
create index on failed_sign_in (hour);
comment on column failed_sign_in.account_id is '0: all names that no account has.';
