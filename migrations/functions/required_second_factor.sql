-- The groups that require a second factor of an account now. Only the previous release reads it.
create or replace view required_second_factor as
select account_id, group_name from second_factor_requirement where required_from <= now();
