-- The downloads of a package of an upstream in the last days, for the chart on its page.
create index concurrently if not exists recorded_download_of_package on recorded_download (repository_id, package, day);
