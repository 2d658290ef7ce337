-- The former logs are gone. For one release, their names are views, through which the previous release reads, inserts and
-- erases.
select setval('event_id_seq', greatest((select last_value from registry_event_id_seq),
                                       (select last_value from identity_event_id_seq)));
drop table registry_event, identity_event;
drop function repeat_event();

create view registry_event as
  select id, happened_at, repository_id, package, version, action, actor_id as account_id, token_kind, token_id, address,
         details, group_id
    from event
   where repository_id is not null or group_id is not null;
create view identity_event as
  select id, happened_at, action, account_id, application_id, actor_id, via, address, user_agent, request_id, details
    from event
   where repository_id is null and group_id is null;

-- The job sweep-events sweeps both. Without its row, no alert waits for a success of the other job.
delete from job where name = 'sweep-identity-events';
delete from job_kind where name = 'sweep-identity-events';

-- The definitions are in functions/.
create function insert_events(the_events jsonb, the_actor jsonb default null) returns void
  language sql as 'select';
drop function if exists note_counted_event(text, bigint, text, text, jsonb);
create or replace function note_account_event() returns trigger language plpgsql as 'begin return null; end';
create or replace function note_failed_sign_in(
  the_account_id bigint, the_network text, the_via text, the_address inet, the_user_agent text, the_request_id text)
  returns void language sql as 'select';

create function insert_identity_event() returns trigger language plpgsql as 'begin return new; end';
create trigger identity_event_is_inserted instead of insert on identity_event
  for each row execute function insert_identity_event();
