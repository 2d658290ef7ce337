-- More first segments of other URLs are no names for groups. The rule is in the trigger of new names now, because a check
-- constraint, even one that is not validated, also refuses every other change of an older group with such a name, and its
-- row in a restore. The function is replaced in the same transaction.
create or replace function refuse_reserved_group_name() returns trigger language plpgsql as 'begin return null; end';
alter table repository_group drop constraint group_name_is_not_the_first_segment_of_another_url;
