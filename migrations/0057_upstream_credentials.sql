-- Only operators let an upstream use the credentials of UPSTREAM_AUTH_FILE (DESIGN §1). Upstreams that exist keep them.

alter table upstream add column uses_credentials boolean not null default true;
comment on column upstream.uses_credentials is 'Whether requests to it have the credentials of UPSTREAM_AUTH_FILE.';

-- No foreign key: an upstream is deleted only together with its repository, and with it all archives.
alter table mirrored_archive add column upstream_id bigint;
comment on column mirrored_archive.upstream_id is 'The upstream that named the URL. Null in rows of earlier releases.';
