-- The downloads of the whole site on a day, for the charts of the administration.
create index concurrently if not exists recorded_download_of_day on recorded_download (day);
