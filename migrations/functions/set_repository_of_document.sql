-- Trigger of package_document: stores the repository of the package, for lists of changes.
create or replace function set_repository_of_document() returns trigger language plpgsql as $$
begin
  new.repository_id := (select repository_id from package where id = new.package_id);
  return new;
end
$$;
