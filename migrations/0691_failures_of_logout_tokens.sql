-- The last failure of each application's logout tokens (OPENID 258), for its developer and administrators.
create table openid_logout_failure (
  application_id bigint primary key references application (id) on delete cascade,
  failure        text not null,
  failed_at      timestamptz not null,
  lost_at        timestamptz,
  told_at        timestamptz
);
comment on column openid_logout_failure.lost_at is 'When the last attempt of a token failed. Null while none was given up.';
comment on column openid_logout_failure.told_at is 'When the failure was told to people: once a day at most.';
