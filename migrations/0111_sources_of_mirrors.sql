-- Whether mirrored packages of an upstream keep their source, and a new read of documents with versions that have no archive.
alter table upstream add column keeps_source boolean not null default false;
comment on column upstream.keeps_source is 'Whether documents name the place of the code, from which Composer can clone it without this server.';

update upstream_document set is_stale = true, last_modified = null
 where dropped <> '{}'
   and exists (select from unnest(dropped) reason where reason like '%: it has no archive that can be mirrored');
