-- Each attempt to deliver a message of a webhook.
create table webhook_attempt (
  id           bigint generated always as identity primary key,
  delivery_id  bigint not null references webhook_delivery (id) on delete cascade,
  attempted_at timestamptz not null default now(),
  status       integer,
  duration_ms  integer not null,
  response     text constraint attempt_response_max_16_kib check (octet_length(response) <= 16384),
  failure      text constraint attempt_failure_max_1000_characters check (char_length(failure) <= 1000)
);
create index webhook_attempt_of_delivery on webhook_attempt (delivery_id, id);
comment on table webhook_attempt is 'The newest 20 of each delivery.';
comment on column webhook_attempt.status is 'The status of the response. Null without a response.';
comment on column webhook_attempt.response is 'The start of the body of the response. Null for a private host.';
comment on column webhook_attempt.failure is 'Why it failed. Null when it has succeeded.';
comment on column webhook_delivery.response is 'Unused since there is webhook_attempt.';

insert into webhook_attempt (delivery_id, attempted_at, status, duration_ms, response, failure)
select id, attempted_at, status, coalesce(duration_ms, 0), response, failure
  from webhook_delivery where attempted_at is not null order by id;
