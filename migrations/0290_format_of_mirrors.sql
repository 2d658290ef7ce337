-- Stored documents have the same columns, whether their packages are of the repository or of an upstream.
alter table mirrored_document add column format integer not null default 1;
comment on column mirrored_document.format is 'A release that writes a later format renders the document again.';
