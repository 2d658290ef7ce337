-- An upstream whose lists and feed take long is read beside the others, so that it delays only its own kind.
alter table upstream add column is_slow boolean not null default false;
comment on column upstream.is_slow is 'Whether the last read of its malware list and change feed took long.';
