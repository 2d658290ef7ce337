-- What somebody without a session can repeat has one event for each account, network and hour, which counts it: failed
-- and locked sign-ins, wrong second factors, and mails requested for a new password. Before, only failed sign-ins were
-- counted. Unlogged, like auth_failure: a crash only starts another event.
create unlogged table counted_event (
  action     text not null check (char_length(action) <= 100),
  account_id bigint not null,
  network    text not null check (char_length(network) <= 100),
  kind       text not null check (char_length(kind) <= 100),
  hour       timestamptz not null,
  event_id   bigint not null,
  attempts   integer not null default 1,
  primary key (action, account_id, network, kind, hour)
);
create index on counted_event (hour);
comment on column counted_event.account_id is '0: all names that no account has.';
comment on column counted_event.kind is 'Of the second factor. Empty for other actions.';
-- The table failed_sign_in stays for one release, because the previous one sweeps it.
