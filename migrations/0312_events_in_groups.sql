-- The activity of a group.
create index concurrently if not exists event_in_group on event (in_group_id, happened_at, id)
  where in_group_id is not null;
