-- Entity tags of documents are hashes of their content. Revisions come from a sequence, which goes back when a database
-- is restored or loses its last commits, so another document could get the same one. The tag begins with the revision
-- that it belongs to: a process of the previous release changes documents without changing their tag.
alter table package_document add column content_tag text;
alter table root_document add column content_tag text;
alter table filter_document add column content_tag text;
alter table mirrored_document add column content_tag text;
comment on column package_document.content_tag is 'See content_tag_of. Null until the document is rendered by a release that knows tags.';
