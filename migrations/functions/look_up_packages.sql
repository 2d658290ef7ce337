-- Only processes of the previous release call it. The index package_search and search_grams are only for it.
-- Returns packages of a repository that contain all of the words, at most `max_count`. With `in_names`, all words must
-- be in the name. The index package_search finds the packages by `grams`, which are some of the words' `search_grams`.
-- The setting makes every plan use that index. Without the setting, and with missing or old statistics, a plan may
-- compute the grams of all packages. A plan with the index of repository_id would do so too, and `+ 0` prevents it.
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
