-- Identity events: what happens to accounts, sessions, tokens, authorizations and applications. Like registry events
-- they are append-only. They have no foreign keys, because they stay when their subject is deleted.
create table identity_event (
  id             bigint generated always as identity primary key,
  happened_at    timestamptz not null default now(),
  action         text not null constraint action_is_kebab_case check (action ~ '^[a-z]+(-[a-z]+)*$'),
  account_id     bigint,
  application_id bigint,
  actor_id       bigint,
  via            text constraint via_is_browser_api_or_command check (via in ('browser', 'api', 'command')),
  address        inet,
  user_agent     text check (char_length(user_agent) <= 400),
  request_id     text check (char_length(request_id) <= 100),
  details        jsonb not null default '{}'
);
comment on column identity_event.account_id is 'The account that the event is about.';
comment on column identity_event.actor_id is 'The account that acted. Null: a command, an application or nobody who is known.';
comment on column identity_event.via is 'Null: an application, or SQL without the setting svc.actor.';
create index on identity_event (account_id, id);
create index on identity_event (actor_id, id) where actor_id is not null;
create index on identity_event (action, id);
-- A lock is noted once in 15 minutes.
create index identity_event_of_lock on identity_event (happened_at) where action = 'sign-in-locked';
create index on identity_event (address, id) where address is not null;
-- The oldest events that still have a client IP.
create index identity_event_with_address on identity_event (id) where address is not null;

-- Events that are not in the log yet. A job writes them there.
create table unlogged_identity_event (
  event_id bigint primary key
);

create trigger identity_event_is_append_only
  before update or delete or truncate on identity_event for each statement execute function refuse_change();
create trigger identity_event_loses_only_its_address before update on identity_event
  for each row execute function refuse_event_change();

-- The definitions are in functions/.
create function queue_event_for_log() returns trigger language plpgsql as 'begin return null; end';
create function note_account_event() returns trigger language plpgsql as 'begin return null; end';
create function note_session_event() returns trigger language plpgsql as 'begin return null; end';
create function note_personal_token_event() returns trigger language plpgsql as 'begin return null; end';
create function note_grant_event() returns trigger language plpgsql as 'begin return null; end';
create function note_authorization_event() returns trigger language plpgsql as 'begin return null; end';
create function note_application_event() returns trigger language plpgsql as 'begin return null; end';
create function note_application_secret_event() returns trigger language plpgsql as 'begin return null; end';

create trigger event_is_logged after insert on identity_event
  for each row execute function queue_event_for_log();
create trigger identity_event_of_account
  after insert or delete or update of username, email, email_verified_at, password_hash, is_admin, disabled_at on account
  for each row execute function note_account_event();
create trigger identity_event_of_session after insert or delete on session
  for each row execute function note_session_event();
create trigger identity_event_of_personal_token after insert or update of revoked_at on personal_token
  for each row execute function note_personal_token_event();
create trigger identity_event_of_grant after insert on authorization_grant
  for each row execute function note_grant_event();
create trigger identity_event_of_authorization after update of ended_at on account_authorization
  for each row when (old.ended_at is null and new.ended_at is not null) execute function note_authorization_event();
create trigger identity_event_of_application after insert or update on application
  for each row execute function note_application_event();
create trigger identity_event_of_application_secret after insert on application_secret
  for each row execute function note_application_secret_event();
