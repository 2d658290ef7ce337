-- A person confirms the keys of an SSH server before a source is read.
alter table source
  add column is_confirmed boolean not null default true
    constraint only_host_keys_wait_for_confirmation check (is_confirmed or host_keys <> '');
comment on column source.is_confirmed is 'Whether a person has confirmed host_keys. Until then the source is not read.';
