-- Returns the packages of a repository with all of the words, found by the index package_search: at most `max_count` of those
-- that have the grams, which are some of the words' `search_grams`. With `in_names` all words are in the name.
-- The setting makes every plan use the index: without it a plan may compute the grams of all packages, when statistics
-- are missing or old. `+ 0` hides repository_id from its own index, which would lead to the same.
create or replace function look_up_packages(
  repository_id bigint, grams integer[], words text[], in_names boolean, max_count integer
) returns setof bigint
language sql stable parallel safe rows 100 set enable_seqscan = off as $$
  select p.id
    from package p
   where cardinality(look_up_packages.grams) > 0
     and search_grams(p.name, p.description, p.keywords, p.type) @> look_up_packages.grams
     and p.repository_id + 0 = look_up_packages.repository_id
     and not exists (
       select from unnest(words) as word
        where strpos(p.name, word) = 0
          and (in_names or (strpos(lower(p.description), word) = 0
                            and strpos(lower(array_to_string(p.keywords, ' ')), word) = 0)))
   limit max_count
$$;
