-- Grants that a later grant of the same authorization covers. They get no more codes. When no token pair needs one, the
-- sweep deletes it. It reads all pairs once a week, because an index of the pairs by their grant would make each refresh
-- more expensive.
create table superseded_grant (
  grant_id      bigint primary key references authorization_grant (id) on delete cascade,
  superseded_at timestamptz not null default now(),
  is_unused     boolean
);
comment on column superseded_grant.is_unused is
  'Whether the running sweep has found no pair of the grant yet. Null: that sweep began before the grant was superseded.';

insert into sweep_position (name, pair_id) values ('superseded_grants', -1);
comment on column sweep_position.pair_id is 'Of superseded_grants: -1 while no sweep runs.';
