-- The exchanges that a release before the previous one has noted in token pairs go to the queue of the others.
insert into unnoted_exchange (happened_at, account_id, application_id, grant_id, scopes, actor)
select created_at, (unnoted_exchange::jsonb -> 'account')::bigint, (unnoted_exchange::jsonb -> 'application')::bigint,
       coalesce(grant_id, authorization_id), refresh_scopes, unnoted_exchange::jsonb ->> 'actor'
  from token_pair
 where unnoted_exchange is not null;
update token_pair set unnoted_exchange = null where unnoted_exchange is not null;
drop index pair_with_unnoted_exchange;
comment on column token_pair.unnoted_exchange is 'Always null. The previous release reads it, so the next one drops it.';

delete from sweep_position where name = 'noted_exchanges';
alter table sweep_position drop column horizon_id, drop column horizon_xid;
-- The definition is in functions/.
create or replace function note_exchanges(max_count integer) returns integer language sql as 'select 0';
