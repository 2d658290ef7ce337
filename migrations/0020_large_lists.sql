-- Lists and searches that stay fast with 100,000 packages in a repository (COMPOSER A2, DESIGN §7).

-- For lists by name, which are in byte order, and for the vendors of a repository.
create index package_by_name on package (repository_id, name collate "C");
-- A search reads the shortest names first: they are the best matches.
create index package_by_length on package (repository_id, char_length(name), name collate "C");

-- The search keys of a package, as integers. The highest byte is the kind: 0 is three bytes in a row of its texts,
-- 1 three and 2 two bytes in a row of its name, 3 its type. A plain array needs no extension, so it works on every
-- PostgreSQL. An index is built from this function, so it stays here and never changes; its twin is `gramsOf` in
-- src/registry/tables/matching-packages.ts.
create function search_grams(name text, description text, keywords text[], type text) returns integer[]
language plpgsql immutable parallel safe cost 10000 as $$
declare
  names bytea := convert_to(name, 'UTF8');
  texts bytea := convert_to(lower(left(name || ' ' || description, 2000) || ' '
                                  || left(array_to_string(keywords, ' '), 2000)), 'UTF8');
  hash  bytea := sha256(convert_to(type, 'UTF8'));
begin
  return array(
    select (get_byte(texts, i) << 16) | (get_byte(texts, i + 1) << 8) | get_byte(texts, i + 2)
      from generate_series(0, octet_length(texts) - 3) as i
    union all
    select (1 << 24) | (get_byte(names, i) << 16) | (get_byte(names, i + 1) << 8) | get_byte(names, i + 2)
      from generate_series(0, octet_length(names) - 3) as i
    union all
    select (2 << 24) | (get_byte(names, i) << 8) | get_byte(names, i + 1)
      from generate_series(0, octet_length(names) - 2) as i
    union all
    select (3 << 24) | (get_byte(hash, 0) << 16) | (get_byte(hash, 1) << 8) | get_byte(hash, 2));
end
$$;
set local maintenance_work_mem = '256MB';
create index package_search on package using gin (search_grams(name, description, keywords, type));
-- Statistics of it would cost every ANALYZE seconds, and no plan needs them.
alter index package_search alter column 1 set statistics 0;

-- A row of package is updated by every push; where its page has room, no index is touched.
alter table package set (fillfactor = 80);
