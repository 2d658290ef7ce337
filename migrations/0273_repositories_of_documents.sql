-- The statement that stores a document stores its repository.
drop trigger document_has_a_repository on package_document;
drop function set_repository_of_document();
comment on column package_document.repository_id is
  'The package''s repository, for lists of changes. Null until the job finish-upgrade completes a document of the previous release.';
