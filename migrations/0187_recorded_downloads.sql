-- Who downloaded which version, counted by day. Like events, it refers to nothing, so that it outlives everything.
create table recorded_download (
  id             bigint generated always as identity primary key,
  day            date not null,
  repository_id  bigint not null,
  package        text not null,
  version        text not null,
  kind           text not null check (kind in ('anonymous', 'session', 'personal', 'deploy', 'access')),
  holder_id      bigint not null,
  account_id     bigint,
  application_id bigint,
  count          bigint not null,
  constraint download_is_recorded unique (repository_id, package, version, day, kind, holder_id)
) with (fillfactor = 80);
create index on recorded_download (repository_id, id);
create index on recorded_download (account_id, id) where account_id is not null;
comment on table recorded_download is 'Removed after EVENT_RETENTION_DAYS, as events are. Packages of upstreams are in it too.';
comment on column recorded_download.day is 'In UTC.';
comment on column recorded_download.version is 'As in the URL of the archive.';
comment on column recorded_download.kind is 'The kind of the token; session: in the browser.';
comment on column recorded_download.holder_id is
  'The id of the personal or deploy token, of the authorization of an access token, or of the account of a session; 0 for anonymous.';
comment on column recorded_download.account_id is 'Null for a deploy token and for anonymous.';
comment on column recorded_download.application_id is 'Only for an access token.';
