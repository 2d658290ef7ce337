-- Home shows the sources that need somebody.
create index troubled_source on source (repository_id)
  where removed_at is null and (failing_since is not null or not is_confirmed);
