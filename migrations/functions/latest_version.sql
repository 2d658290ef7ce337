-- Returns the id of the latest version: the highest stable one, else the highest pre-release, else the highest
-- development version. Null when no version is listed. Each branch reads the index listed_versions from its end, so it
-- reads only a few rows.
create or replace function latest_version(the_package_id bigint) returns bigint
language sql stable parallel safe as $$
  select coalesce(
    (select id from package_version
      where package_id = the_package_id and is_listed and not is_dev and is_stable(is_dev, normalized)
      order by sort_key desc, published_at desc, id desc limit 1),
    (select id from package_version
      where package_id = the_package_id and is_listed and not is_dev
      order by sort_key desc, published_at desc, id desc limit 1),
    (select id from package_version
      where package_id = the_package_id and is_listed and is_dev
      order by sort_key desc, published_at desc, id desc limit 1))
$$;
