-- Trigger function: every change of a quarantine updates filter.json, also a change by an older release that still runs,
-- or by hand.
create or replace function note_quarantine() returns trigger
language plpgsql as $$
begin
  perform render_filter_document((select repository_id from package where id = new.package_id));
  return null;
end
$$;
