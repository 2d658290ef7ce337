-- Trigger function: updates filter.json when a quarantine changes. This includes changes by hand and by an older
-- release that still runs.
create or replace function note_quarantine() returns trigger
language plpgsql as $$
begin
  perform render_filter_document((select repository_id from package where id = new.package_id));
  return null;
end
$$;
