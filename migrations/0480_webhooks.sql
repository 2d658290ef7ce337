-- Webhooks: servers that get a message when something happens in a repository, a group, or anywhere on the site.
create table webhook (
  id                    bigint generated always as identity primary key,
  group_id              bigint references repository_group (id) on delete cascade,
  repository_id         bigint references repository (id) on delete cascade,
  url                   text not null constraint webhook_url_max_1000_characters check (char_length(url) <= 1000),
  types                 text[],
  format                text not null
                        constraint webhook_format_is_known check (format in ('json', 'slack', 'teams', 'matrix')),
  reaches_private_hosts boolean not null,
  key_id                bytea not null constraint webhook_key_id_has_8_bytes check (octet_length(key_id) = 8),
  sealed_secrets        bytea not null constraint webhook_secrets_max_1_kib check (octet_length(sealed_secrets) <= 1024),
  former_secret_until   timestamptz,
  is_slow               boolean not null default false,
  held_until            timestamptz,
  made_by               bigint,
  created_at            timestamptz not null default now(),
  disabled_at           timestamptz,
  disabled_because      text constraint webhook_reason_max_1000_characters check (char_length(disabled_because) <= 1000),
  constraint webhook_has_one_place check (group_id is null or repository_id is null),
  constraint only_a_disabled_webhook_has_a_reason check (disabled_at is not null or disabled_because is null)
);
create index webhook_of_repository on webhook (repository_id) where repository_id is not null;
create index webhook_of_group on webhook (group_id) where group_id is not null;
create index webhook_of_site on webhook (id) where repository_id is null and group_id is null;
comment on column webhook.group_id is 'Null for a webhook of one repository, and, with repository_id, for one of the site.';
comment on column webhook.types is 'The types of messages that it gets. Null for all, later ones too.';
comment on column webhook.reaches_private_hosts is
  'Whether the URL may be on a host of OUTBOUND_PRIVATE_HOSTS: an operator has set it.';
comment on column webhook.sealed_secrets is
  'AES-256-GCM: 12 bytes nonce, ciphertext, 16 bytes tag. JSON with the secrets that sign, the newest first.';
comment on column webhook.former_secret_until is 'Until when the second secret signs, too. Null when there is none.';
comment on column webhook.is_slow is 'Whether the last response took long. Slow webhooks have slots of their own.';
comment on column webhook.held_until is 'The receiver wants no messages before (Retry-After).';
comment on column webhook.made_by is
  'The account that added it; null for the command line. No foreign key: the webhook outlives the account.';
comment on column webhook.disabled_because is 'Why svc itself has disabled it. Null when a person did.';

create table webhook_delivery (
  id           bigint generated always as identity primary key,
  webhook_id   bigint not null references webhook (id) on delete cascade,
  message_id   uuid not null default gen_random_uuid(),
  event_id     bigint,
  type         text not null,
  created_at   timestamptz not null default now(),
  due_at       timestamptz default now(),
  attempts     integer not null default 0,
  attempted_at timestamptz,
  body         text constraint webhook_body_max_16_kib check (octet_length(body) <= 16384),
  status       integer,
  duration_ms  integer,
  response     text constraint webhook_response_max_16_kib check (octet_length(response) <= 16384),
  failure      text constraint webhook_failure_max_1000_characters check (char_length(failure) <= 1000)
);
create index webhook_delivery_of_webhook on webhook_delivery (webhook_id, id);
create index webhook_delivery_due on webhook_delivery (webhook_id, due_at, id) where due_at is not null;
create index webhook_delivery_by_age on webhook_delivery (created_at);
comment on table webhook_delivery is 'The messages of the last 30 days. insert_events adds those about events, in their transaction.';
comment on column webhook_delivery.message_id is 'The header webhook-id, the same for each attempt.';
comment on column webhook_delivery.event_id is 'An event of a repository or group. No foreign key: events have their own retention. Null for a ping.';
comment on column webhook_delivery.due_at is 'When the next attempt is due. Null after the last one.';
comment on column webhook_delivery.body is 'As it was sent. Null before the first attempt.';
comment on column webhook_delivery.response is 'The start of the body of the last response. Null for a private host.';
comment on column webhook_delivery.failure is 'Why the last attempt failed. Null when it has succeeded, and before the first one.';
