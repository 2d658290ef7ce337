create index concurrently if not exists package_by_type on package
  (repository_id, type, char_length(name), name collate "C");
