-- Which archives this database has stored, and its claim on the archive store. A copy of the database has the same id, but
-- must not remove archives of the original, or send its mails.

create table stored_archive (
  sha256       bytea primary key check (octet_length(sha256) = 32),
  size         bigint not null check (size >= 0),
  unused_since timestamptz,
  checked_at   timestamptz not null default now(),
  problem      text check (problem in ('damaged', 'missing', 'wrong size'))
);
comment on table stored_archive is 'The archives that this database has stored. A row exists before the file, and until the file is removed.';
comment on column stored_archive.unused_since is 'When a garbage collection found that nothing needs the file. Null while something does.';
comment on column stored_archive.checked_at is 'When the bytes were last compared with the hash: when they were stored, or later.';
create index stored_archive_unused on stored_archive (unused_since) where unused_since is not null;
create index stored_archive_checked on stored_archive (checked_at);
create index stored_archive_problem on stored_archive (sha256) where problem is not null;
insert into stored_archive (sha256, size)
select sha256, size from archive
 where sha256 in (select sha256 from package_version where purged_at is null
                  union all select sha256 from mirrored_archive where is_stored);

create table store_claim (
  is_only_row    boolean primary key default true constraint store_claim_has_one_row check (is_only_row),
  incarnation    uuid not null default gen_random_uuid(),
  counter        bigint not null default 0,
  nonce          uuid not null default gen_random_uuid(),
  previous_nonce uuid not null default gen_random_uuid(),
  keeper         uuid,
  kept_at        timestamptz not null default '-infinity',
  lost_because   text check (char_length(lost_because) <= 1000)
);
comment on table store_claim is 'The claim on the archive store. The store has a copy that is one step older.';
comment on column store_claim.counter is 'Grows with every step. Each step has a new nonce.';
comment on column store_claim.keeper is 'The process that made the last step, at kept_at.';
comment on column store_claim.lost_because is 'Why this database has no claim. Null while it has the claim.';
insert into store_claim default values;
