-- Returns stored JSON without lone surrogates, which earlier releases accepted. The operator ->> fails for a whole
-- value that contains one. Only lone surrogates are stored as escapes, and an escape follows an even number of
-- backslashes.
create or replace function readable_json(stored json) returns json
language sql immutable parallel safe as $$
  select regexp_replace(stored::text, '(?<!\\)((?:\\\\)*)\\u[dD][89a-fA-F][0-9a-fA-F]{2}', '\1', 'g')::json
$$;
