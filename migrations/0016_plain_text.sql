-- No bidirectional control and no line separator in names and descriptions, and none of them nor a control character in
-- what applications and advisories say (DESIGN §7). `is_plain_text` knows the characters; the list below is the same.
create function pg_temp.without_controls(words text) returns text language sql as $$
  select regexp_replace(words, '[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]', ' ', 'g')
$$;

update account set display_name = pg_temp.without_controls(display_name)
 where display_name <> pg_temp.without_controls(display_name);
update repository set description = pg_temp.without_controls(description)
 where description <> pg_temp.without_controls(description);
update personal_token set name = left(pg_temp.without_controls(name), 79) || ' ' || id
 where name <> pg_temp.without_controls(name);

-- A website with credentials seems to have another host than it has: https://example.com@elsewhere.example.
update application
   set name = coalesce(nullif(btrim(pg_temp.without_controls(name)), ''), 'application ' || id)
 where name <> pg_temp.without_controls(name);
update application
   set description = pg_temp.without_controls(description)
 where translate(description, E'\t\r\n', '') <> pg_temp.without_controls(translate(description, E'\t\r\n', ''));
update application
   set website = regexp_replace(pg_temp.without_controls(website), '^(https?://)[^/?#]*@| ', '\1', 'g')
 where website ~ '^https?://[^/?#]*@' or website <> pg_temp.without_controls(website);
alter table application
  add constraint application_name_is_plain_text check (is_plain_text(name)),
  add constraint application_description_is_plain_text check (is_plain_text(translate(description, E'\t\r\n', ''))),
  add constraint application_website_is_plain_text check (is_plain_text(website)),
  add constraint application_website_has_no_userinfo check (website !~ '^https?://[^/?#]*@');

update advisory
   set title = coalesce(nullif(btrim(pg_temp.without_controls(title)), ''), advisory_id),
       affected_versions = pg_temp.without_controls(affected_versions)
 where title <> pg_temp.without_controls(title) or affected_versions <> pg_temp.without_controls(affected_versions);
alter table advisory
  add constraint advisory_title_is_plain_text check (is_plain_text(title)),
  add constraint advisory_affected_versions_is_plain_text check (is_plain_text(affected_versions));

update package_version set quarantine_reason = pg_temp.without_controls(quarantine_reason)
 where quarantined_at is not null and quarantine_reason <> pg_temp.without_controls(quarantine_reason);
-- Not validated: the table may be large, and the statement above has seen every reason.
alter table package_version
  add constraint quarantine_reason_is_plain_text check (is_plain_text(quarantine_reason)) not valid;
