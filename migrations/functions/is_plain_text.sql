-- Returns whether a text has no control characters: names and descriptions are shown in terminals and on pages.
create or replace function is_plain_text(words text) returns boolean
language sql immutable parallel safe as $$
  select words !~ '[\u0001-\u001f\u007f-\u009f]'
$$;
