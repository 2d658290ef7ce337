-- Devices and command lines (OPENID 221–227, RFC 8628): a device shows a code, and a person confirms it in a browser.
alter table application add column is_device boolean not null default false;
comment on column application.is_device is 'May ask with a code that the person confirms in a browser on any machine (RFC 8628).';

create table device_request (
  device_hash      bytea primary key check (octet_length(device_hash) = 32),
  user_hash        bytea not null unique check (octet_length(user_hash) = 32),
  application_id   bigint not null references application (id) on delete cascade,
  scopes           text[] not null,
  resource_scope   resource_scope not null,
  client_ip        inet not null,
  created_at       timestamptz not null default now(),
  expires_at       timestamptz not null,
  interval_seconds integer not null,
  polled_at        timestamptz,
  account_id       bigint references account (id) on delete cascade,
  is_approved      boolean
);
create index on device_request (expires_at);
create index on device_request (application_id);
create index on device_request (account_id) where account_id is not null;
comment on column device_request.client_ip is 'Of the device, for the person who decides.';
comment on column device_request.interval_seconds is 'How long the device must wait between two polls. Grows when it polls too fast.';
comment on column device_request.account_id is 'Who decided. Null while nobody has.';
comment on column device_request.is_approved is
  'Null while nobody has decided. An approval adds a code whose hash is the SHA-256 of device_hash, which a poll exchanges.';

alter table authorization_request
  add column device_hash bytea,
  alter column redirect_uri drop not null;
comment on column authorization_request.device_hash is
  'The request of a device that this page decides, which has no redirect URI. No foreign key: the page expires with the device''s request.';
