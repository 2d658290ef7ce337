-- Whoever copies the description of a package's latest version also writes its requirements.
drop trigger package_notes_its_dependencies on package;
drop function note_dependencies();
comment on table package_dependency is 'Requirements of latest versions, without platform packages such as php.';
