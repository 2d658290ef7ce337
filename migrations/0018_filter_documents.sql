-- filter.json (DESIGN §7, COMPOSER A8): the versions of a repository in quarantine, as one document for its clients.

create table filter_document (
  repository_id bigint primary key references repository (id) on delete cascade,
  revision      bigint not null default nextval('document_revision'),
  last_modified timestamptz(0) not null,
  plain         bytea not null
);
comment on table filter_document is 'filter.json, as served; a repository that never had a quarantine has none.';

insert into filter_document (repository_id, last_modified, plain)
select q.repository_id, date_trunc('second', now()),
       convert_to(json_build_object('filter', json_build_object('malware', json_object_agg(q.name, q.constraints)))::text, 'UTF8')
  from (select p.repository_id, p.name, string_agg('==' || v.composer, ' || ' order by v.id) as constraints
          from package_version v join package p on p.id = v.package_id
         where v.quarantined_at is not null
         group by p.id) q
 group by q.repository_id;

-- The body is in functions/note_quarantine.sql, which is applied after this file.
create function note_quarantine() returns trigger language plpgsql as 'begin return null; end';
create trigger quarantine_is_set after insert on package_version
  for each row when (new.quarantined_at is not null) execute function note_quarantine();
create trigger quarantine_changes after update of quarantined_at on package_version
  for each row when (old.quarantined_at is distinct from new.quarantined_at) execute function note_quarantine();

-- A release that writes documents in another format renders the stored ones again. 1 is the format before packages.json
-- named filter.json.
alter table package_document add column format integer not null default 1;
alter table root_document add column format integer not null default 1;
comment on column package_document.format is 'A release that writes a later format renders the document again.';
comment on column root_document.format is 'A release that writes a later format renders the document again.';

-- The entries of quarantined versions have a new key; all other documents of packages stay as they are.
update package_document set format = 0
 where package_id in (select package_id from package_version where quarantined_at is not null);
