-- The last release of a repository, for lists of repositories: one look-up in the events, however many there are.
create index publish_events on registry_event (repository_id, id) where action in ('publish', 'import');

-- The search of site administrators reads the shortest names of the whole site first: they are the best matches.
create index package_of_site_by_length on package (char_length(name), name collate "C");
