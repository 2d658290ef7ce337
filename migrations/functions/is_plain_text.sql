-- Returns whether a text is one line without control characters. Names and descriptions are shown in terminals, on
-- pages and in JSON. Bidirectional controls and the separators U+2028 and U+2029 count as control characters.
create or replace function is_plain_text(words text) returns boolean
language sql immutable parallel safe as $$
  select words !~ '[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]'
$$;
