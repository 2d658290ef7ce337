-- The pages of a package (DESIGN §4): what requires it, and what was done to it.

-- What the latest version of each package requires. Kept by a trigger.
create table package_dependency (
  target        text not null,
  repository_id bigint not null,
  package_id    bigint not null references package (id) on delete cascade,
  is_dev        boolean not null,
  requirement   text not null,
  primary key (target, repository_id, package_id, is_dev)
);
create index on package_dependency (package_id);
comment on table package_dependency is
  'Requirements of latest versions, without platform packages such as php. The job list-dependencies writes those of packages that are older than this table.';
comment on column package_dependency.repository_id is
  'That of the package: a list for one reader looks only at the repositories that the reader may see.';

-- Requirements link to packages of all repositories that the reader may see.
create index package_by_plain_name on package (name);

create index events_of_package on registry_event (repository_id, package, id) where package is not null;

-- Only a place for the trigger to point to: the definition is in functions/.
create function note_dependencies() returns trigger language plpgsql as $$
begin
  return null;
end
$$;
-- A release that does not know the table may run beside this one: it too copies the description of the latest version.
create trigger package_notes_its_dependencies after update of description on package
  for each row execute function note_dependencies();

insert into job (name, key) select 'list-dependencies', '' where exists (select from package);
