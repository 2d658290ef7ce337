-- Trigger function: keeps package_dependency up to date. It runs whenever the description of the latest version is
-- copied to the package.
create or replace function note_dependencies() returns trigger language plpgsql as $$
begin
  perform save_dependencies(new.id, new.repository_id);
  return null;
end
$$;
