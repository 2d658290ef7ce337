-- Identity events of exchanged codes: a job writes them a few seconds later, from what the new pair keeps until then.
alter table token_pair add column unnoted_exchange text;
comment on column token_pair.unnoted_exchange is
  'Of the first pair of a code, until its identity event is written: JSON of the account, the application and who sent the request.';

-- Where the job continues. It reads pairs up to horizon_id when all transactions before horizon_xid have ended.
alter table sweep_position
  add column horizon_id bigint not null default 0,
  add column horizon_xid bigint not null default 0;
insert into sweep_position (name, pair_id, horizon_id)
select 'noted_exchanges', newest.id, newest.id from (select coalesce(max(id), 0) as id from token_pair) as newest;

-- Once for each statement: a job inserts many events at once.
drop trigger event_is_logged on identity_event;
create trigger event_is_logged after insert on identity_event
  referencing new table as added for each statement execute function queue_event_for_log();
