-- What only releases before the previous one have called: a process of them no longer runs beside this one.
drop view if exists registry_event;
drop view if exists identity_event;
drop view if exists required_second_factor;
drop function if exists insert_identity_event();
drop function if exists forget_account_names(bigint, text, timestamptz, timestamptz);
drop function if exists look_up_all_packages(integer[], text, boolean, integer);
drop function if exists look_up_packages(bigint, integer[], text[], boolean, integer);
drop function if exists move_exchange_horizon();
drop function if exists note_failed_sign_in(bigint, text, text, inet, text, text);
drop function if exists queue_event_for_log();
drop function if exists sweep_identity_events(integer, integer, integer);

-- The former index of the search. Every change of a package wrote it.
drop index package_search;
drop function search_grams(text, text, text[], text);

drop table sign_in_return, passkey_challenge, authorization_repository;

-- Grants have both.
alter table account_authorization drop column scopes, drop column resource_scope;
-- The definition is in functions/.
create or replace function approve_authorization_request(
  the_id_hash bytea, the_account_id bigint, chosen_paths text[], the_code_hash bytea, code_lifetime_seconds integer)
  returns table (redirect_uri text, state text) language sql as 'select null, null';

-- These jobs completed what processes of an earlier release wrote beside a later one.
delete from job where name in ('finish-upgrade', 'list-dependencies');
delete from job_kind where name in ('finish-upgrade', 'list-dependencies');
comment on column package_document.repository_id is 'The package''s repository, for lists of changes.';
