-- The acts that begin and end a quarantine render filter.json.
drop trigger quarantine_is_set on package_version;
drop trigger quarantine_changes on package_version;
drop function note_quarantine();
