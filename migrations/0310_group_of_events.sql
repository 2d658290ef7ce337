-- The group in whose activity an event is. It stays when a repository is removed, so the admins of the group still see who
-- deleted it.
alter table event add column in_group_id bigint;
comment on column event.in_group_id is
  'The group in whose activity the event is: its own, or that of its repository, invitation or deploy token.';

-- The definitions are in functions/.
create or replace function insert_events(the_events jsonb, the_actor jsonb default null) returns void
  language sql as 'select';
create or replace function refuse_event_change() returns trigger language plpgsql as 'begin return new; end';
