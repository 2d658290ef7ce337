-- Archives of names that a removed upstream has released stay for lock files (DESIGN §1). The last rules of that upstream
-- still apply to them. Names that were released before keep no archives: the malware flags of their upstream are lost.
alter table mirrored_package
  add column released_from  bigint references upstream (id) on delete cascade,
  add column released_flags jsonb not null default '[]';
create index on mirrored_package (released_from) where released_from is not null;
comment on column mirrored_package.released_from is 'The removed upstream that released the name. It counts only while the name is not bound.';
comment on column mirrored_package.released_flags is 'Versions that this upstream flagged as malware, like flags.';

-- Versions without an archive and without a publication time, and when svc first saw them: the minimum age starts then.
create table mirrored_metapackage (
  package_id    bigint not null references mirrored_package (id) on delete cascade,
  normalized    text not null,
  first_seen_at timestamptz not null default now(),
  primary key (package_id, normalized)
);
