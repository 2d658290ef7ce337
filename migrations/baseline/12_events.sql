-- Events. They are append-only, and have no foreign keys, because they stay when their subject is deleted. Jobs erase
-- client IPs, and old events when the operator wants it.

-- What happens to packages and repositories: who did what, with which token, when and from where. An event about a whole
-- group concerns all of its repositories.
create table registry_event (
  id            bigint generated always as identity primary key,
  happened_at   timestamptz not null default now(),
  repository_id bigint,
  package       text,
  version       text,
  action        text not null,
  account_id    bigint,
  token_kind    text,
  token_id      bigint,
  address       inet,
  details       jsonb not null default '{}',
  group_id      bigint
);
-- Not validated, in every database alike: older events keep stricter rules.
alter table registry_event
  add constraint event_is_about_a_repository_or_a_group check (num_nonnulls(repository_id, group_id) = 1) not valid,
  add constraint registry_event_token_kind_check check (token_kind in ('access', 'personal', 'deploy')) not valid;
create index on registry_event (repository_id, id);
create index on registry_event (group_id, id) where group_id is not null;
create index events_of_package on registry_event (repository_id, package, id) where package is not null;
-- The last release of a repository, for lists of repositories.
create index publish_events on registry_event (repository_id, id) where action in ('publish', 'import');
-- The events of a deleted repository, by its path.
create index event_of_deletion on registry_event ((details ->> 'path')) where action = 'delete-repository';
-- The oldest events that still have a client IP.
create index event_with_address on registry_event (id) where address is not null;
create trigger registry_event_is_append_only
  before update or delete or truncate on registry_event for each statement execute function refuse_change();
create trigger event_loses_only_its_address before update on registry_event
  for each row execute function refuse_event_change();

-- What happens to accounts, sessions, tokens, authorizations and applications.
create table identity_event (
  id             bigint generated always as identity primary key,
  happened_at    timestamptz not null default now(),
  action         text not null constraint action_is_kebab_case check (action ~ '^[a-z]+(-[a-z]+)*$'),
  account_id     bigint,
  application_id bigint,
  actor_id       bigint,
  via            text,
  address        inet,
  user_agent     text check (char_length(user_agent) <= 400),
  request_id     text check (char_length(request_id) <= 100),
  details        jsonb not null default '{}'
);
-- Not validated, like the rules above.
alter table identity_event add constraint via_is_browser_api_command_or_application
  check (via in ('browser', 'api', 'command', 'application')) not valid;
create index on identity_event (account_id, id);
create index on identity_event (actor_id, id) where actor_id is not null;
create index on identity_event (application_id, id) where application_id is not null;
create index on identity_event (action, id);
create index on identity_event (happened_at);
-- A lock is noted once in 15 minutes.
create index identity_event_of_lock on identity_event (happened_at) where action = 'sign-in-locked';
create index on identity_event (address, id) where address is not null;
-- The oldest events that still have a client IP.
create index identity_event_with_address on identity_event (id) where address is not null;
comment on column identity_event.account_id is 'The account that the event is about.';
comment on column identity_event.actor_id is 'The account that acted. Null: a command, an application or nobody who is known.';
comment on column identity_event.via is
  'application: the application of the event acted, at an OAuth endpoint. Null: SQL without the setting svc.actor.';
create trigger identity_event_is_append_only
  before update or delete or truncate on identity_event for each statement execute function refuse_change();
create trigger identity_event_loses_only_its_address before update on identity_event
  for each row execute function refuse_event_change();

-- Events that are not in the log yet. A job writes them there.
create table unlogged_identity_event (
  event_id bigint primary key
);
create trigger event_is_logged after insert on identity_event
  referencing new table as added for each statement execute function queue_event_for_log();

-- Triggers that write identity events.
create trigger identity_event_of_account
  after insert or delete or update of username, email, email_verified_at, password_hash, is_admin, disabled_at on account
  for each row execute function note_account_event();
create trigger identity_event_of_session after insert or delete on session
  for each row execute function note_session_event();
create trigger identity_event_of_totp_factor after insert or delete or update of confirmed_at on totp_factor
  for each row execute function note_factor_event();
create trigger identity_event_of_passkey after insert or delete on passkey
  for each row execute function note_factor_event();
create trigger identity_event_of_account_identity after insert or delete on account_identity
  for each row execute function note_account_identity_event();
create trigger identity_event_of_invitation after insert or update of accepted_at, withdrawn_at on invitation
  for each row execute function note_invitation_event();
create trigger identity_event_of_application after insert or update on application
  for each row execute function note_application_event();
create trigger identity_event_of_application_secret after insert on application_secret
  for each row execute function note_application_secret_event();
create trigger identity_event_of_grant after insert on authorization_grant
  for each row execute function note_grant_event();
create trigger identity_event_of_authorization after update of ended_at on account_authorization
  for each row when (old.ended_at is null and new.ended_at is not null) execute function note_authorization_event();
create trigger identity_event_of_personal_token after insert or update of revoked_at on personal_token
  for each row execute function note_personal_token_event();
create trigger identity_event_of_deploy_token after insert or update of revoked_at on deploy_token
  for each row execute function note_deploy_token_event();
-- The first use of a token. Uses are written together and later, so the event has no client IP.
create trigger identity_event_of_first_use after update of last_used_at on personal_token
  for each row when (old.last_used_at is null and new.last_used_at is not null)
  execute function note_personal_token_event();
create trigger identity_event_of_first_use after update of last_used_at on deploy_token
  for each row when (old.last_used_at is null and new.last_used_at is not null)
  execute function note_deploy_token_event();
