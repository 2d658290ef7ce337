-- The search uses trigrams of the extension pg_trgm, which is part of PostgreSQL. Its operator class must be
-- in the search path: the next migration names it.
do $$
begin
  create extension if not exists pg_trgm;
exception
  when insufficient_privilege then
    raise 'svc needs the extension pg_trgm, and the role % may not create it in the database %. As its owner or a superuser, run "create extension pg_trgm" there, and start svc again.',
      current_user, current_database();
  when feature_not_supported or undefined_file then
    raise 'svc needs the extension pg_trgm: %. Install the contrib modules of PostgreSQL, or allow this one, and start svc again.',
      sqlerrm;
end
$$;

do $$
declare
  place text := (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm');
begin
  if place <> all (current_schemas(true)) then
    raise 'The extension pg_trgm is in the schema %, which is not in the search path. Run "grant usage on schema % to %; alter role % set search_path = public, %", and start svc again.',
      place, place, current_user, current_user, place;
  end if;
end
$$;

-- The text in which a search finds words, in lower case. If it is not ASCII, the hexadecimal form of its bytes follows,
-- because pg_trgm knows only ASCII letters in some databases, and has no parts of less than three letters. An index is
-- built from this function, so it is here and not in functions/, and never changes. Its cost makes every plan use the
-- index, also while the index has many new entries that it must read one after another.
create function search_text(name text, description text, keywords text[]) returns text
language plpgsql immutable parallel safe cost 100000 as $$
declare
  texts text := lower(concat(name, e'\n', left(description, 2000), e'\n', left(array_to_string(keywords, ' '), 2000)));
begin
  if octet_length(texts) = char_length(texts) then
    return texts;
  end if;
  return concat(texts, e'\n', encode(convert_to(texts, 'UTF8'), 'hex'));
end
$$;
