-- Events of a whole group (DESIGN §1): a change of its members concerns all of its repositories.
alter table registry_event alter column repository_id drop not null;
alter table registry_event add column group_id bigint;
-- Not validated: older events have a repository by the rule that held until now, and the table may be large.
alter table registry_event add constraint event_is_about_a_repository_or_a_group
  check (num_nonnulls(repository_id, group_id) = 1) not valid;
create index on registry_event (group_id, id) where group_id is not null;
