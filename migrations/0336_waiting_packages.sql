-- The names that wait for approval. A home page counts them in every repository of an admin.
create index concurrently if not exists mirrored_package_waiting on mirrored_package (repository_id)
  where requested_at is not null and approved_at is null;
