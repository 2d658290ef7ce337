-- Only processes of the previous release call it, see look_up_packages.
-- Returns at most `max_count` packages of all repositories that contain the word. The word is in lower case, and
-- `grams` are its grams for the index package_search. Does not check permissions. Like look_up_packages, it never
-- computes the grams of all packages.
create or replace function look_up_all_packages(grams integer[], word text, in_names boolean, max_count integer)
returns table (id bigint, repository_id bigint, name text, description text, abandoned_at timestamptz)
language sql stable parallel safe rows 100 set enable_seqscan = off as $$
  select p.id, p.repository_id, p.name, p.description, p.abandoned_at
    from package p
   where cardinality(grams) > 0 and search_grams(p.name, p.description, p.keywords, p.type) @> grams
     and (strpos(p.name, word) > 0 or (not in_names and strpos(lower(p.description), word) > 0))
   limit max_count
$$;
