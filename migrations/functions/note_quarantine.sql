-- In the database, so that no program changes a quarantine without its clients being told: not an older release that
-- still runs beside this one, and no statement by hand.
create or replace function note_quarantine() returns trigger
language plpgsql as $$
begin
  perform render_filter_document((select repository_id from package where id = new.package_id));
  return null;
end
$$;
