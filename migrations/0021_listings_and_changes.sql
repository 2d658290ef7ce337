-- packages.json is rendered when it is read, not by every push of a new name; changes.json reads one index (COMPOSER A2).

create table repository_listing (
  repository_id bigint primary key references repository (id) on delete cascade,
  revision      bigint not null default nextval('document_revision')
) with (fillfactor = 50);
comment on table repository_listing is
  'The last change of the content of packages.json. The stored root_document is current when its revision is not lower.';

insert into repository_listing (repository_id, revision) select repository_id, revision from root_document;

alter table package_document add column repository_id bigint;
comment on column package_document.repository_id is 'The package''s repository: set by a trigger, for lists of changes.';
update package_document d set repository_id = p.repository_id from package p where p.id = d.package_id;

create function set_repository_of_document() returns trigger language plpgsql as $$
begin
  new.repository_id := (select repository_id from package where id = new.package_id);
  return new;
end
$$;
create trigger document_has_a_repository before insert on package_document
  for each row execute function set_repository_of_document();

create index document_changes on package_document (repository_id, last_modified);
