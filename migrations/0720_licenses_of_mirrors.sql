alter table mirrored_package add column licenses jsonb not null default '[]';
comment on column mirrored_package.licenses is 'Of the versions in the upstream''s document, without development versions: {licenses, versions}; versions is null for all.';
