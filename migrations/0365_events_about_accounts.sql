-- What happened to an account, latest first. It replaces event_of_account, which has the order of the ids.
create index concurrently if not exists event_about_account on event (account_id, happened_at, id)
  where account_id is not null;
