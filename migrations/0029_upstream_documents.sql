-- The time of the next request to a failing upstream, and its versions that cannot be offered.
alter table upstream_document
  add column retry_at timestamptz,
  add column dropped  text[] not null default '{}';
comment on column upstream_document.retry_at is 'Set by a failure: the time of the next request.';
comment on column upstream_document.dropped is 'Versions that cannot be read, each with the reason.';

alter table upstream add column feed_from timestamptz;
comment on column upstream.feed_from is 'Since when the change feed has been followed without a gap; null while it is not.';
