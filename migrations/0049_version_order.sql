-- The pages of a package with 20,000 versions (DESIGN §4) read their versions from an index: in the order of the lists, and
-- one by its name.
create index version_order on package_version (package_id, (not is_dev), sort_key, published_at, id);
create index version_of_package on package_version (package_id, version);
