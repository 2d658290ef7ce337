-- What earlier releases left: a table that nothing writes since 0220, and a function that nothing calls. And a rule of
-- databases that applied 0335 before it was amended: it also refuses other changes of a group. The trigger of new names has it.
drop table if exists failed_sign_in;
drop function if exists sweep_events_of(regclass, integer, integer, integer);
alter table repository_group drop constraint if exists group_name_is_not_the_first_segment_of_another_url;
