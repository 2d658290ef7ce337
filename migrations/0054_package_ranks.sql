-- The list of packages by downloads, for any number of packages (DESIGN §6).
create table package_rank (
  package_id    bigint primary key references package (id) on delete cascade,
  repository_id bigint not null,
  downloads     bigint not null default 0
);
insert into package_rank (package_id, repository_id, downloads)
select p.id, p.repository_id, coalesce(t.count, 0) from package p left join package_download_total t on t.package_id = p.id;
create index packages_by_downloads on package_rank (repository_id, downloads, package_id);
comment on table package_rank is
  'The downloads of each package some minutes ago. The job rank-packages copies the totals, so that downloads do not change an index.';

-- Only a place for the trigger to point to: the definition is in functions/.
create function rank_new_packages() returns trigger language plpgsql as $$
begin
  return null;
end
$$;
-- A release that does not know the table may run beside this one, and makes packages too.
create trigger new_packages_are_ranked after insert on package
  referencing new table as new_rows for each statement execute function rank_new_packages();
