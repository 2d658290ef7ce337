-- A queue of the events of exchanged codes. They waited in their token pairs, which the job that writes them had to find.
-- Rows are taken in any order, so there is no index that an exchange would have to write.
create table unnoted_exchange (
  happened_at    timestamptz not null default now(),
  account_id     bigint not null,
  application_id bigint not null,
  grant_id       bigint not null,
  scopes         text[],
  actor          text
);
comment on column unnoted_exchange.scopes is 'Null: all of the grant.';
comment on column unnoted_exchange.actor is 'JSON of who sent the request.';

-- Functions for releases before the previous one.
drop function if exists exchange_code(text, bytea, bytea, text, text, bytea, bytea, integer, integer);
drop function if exists exchange_codes(text[], bytea[], bytea[], text[], text[], bytea[], bytea[], integer, integer);
drop function if exists refresh_pair(text, bytea, bytea, text[], bytea, bytea, bytea, integer, integer, integer);
drop function if exists revoke_token(text, bytea, bytea);
drop function if exists revoke_tokens(text[], bytea[], bytea[]);
