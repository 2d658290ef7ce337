-- Staged releases: an uploaded version waits until a developer releases or rejects it.
create table staged_version (
  id             bigint generated always as identity primary key,
  repository_id  bigint not null references repository (id) on delete cascade,
  package_name   text not null
                 constraint staged_package_name_is_lower_case_vendor_and_package
                 check (package_name ~ '^[a-z0-9_.-]+/[a-z0-9_.-]+$' and char_length(package_name) <= 150),
  version        text not null,
  composer       text not null,
  normalized     text not null,
  is_dev         boolean not null,
  metadata       json not null,
  readme_format  text not null constraint staged_readme_format_is_html_text_or_none
                 check (readme_format in ('html', 'text', 'none')),
  readme_content text not null constraint staged_readme_max_512_kib check (octet_length(readme_content) <= 524288),
  sha256         bytea not null references archive (sha256),
  state          text not null default 'staged' constraint stage_is_staged_released_rejected_or_expired
                 check (state in ('staged', 'released', 'rejected', 'expired')),
  stager         jsonb not null,
  stager_id      bigint,
  staged_at      timestamptz not null default now(),
  expires_at     timestamptz not null default now() + interval '14 days',
  approver_id    bigint,
  approved_at    timestamptz,
  decider_id     bigint,
  decided_at     timestamptz constraint only_a_staged_version_is_not_decided
                 check ((decided_at is null) = (state = 'staged'))
);
create unique index staged_number_is_taken on staged_version (repository_id, package_name, normalized)
  where state = 'staged';
create index staged_version_of_repository on staged_version (repository_id, id);
create index staged_version_of_archive on staged_version (sha256);
create index staged_version_to_expire on staged_version (expires_at) where state = 'staged';
create index decided_stage on staged_version (decided_at) where state <> 'staged';
comment on table staged_version is 'Until it is released, it is no version: only people who may push see it.';
comment on column staged_version.normalized is 'Composer''s normalised form. Reserved while the state is staged.';
comment on column staged_version.stager is 'Who staged it: a principal, as events have it.';
comment on column staged_version.stager_id is
  'The account that staged it; null when none did. Like approver_id and decider_id no foreign key, so that it outlives the account.';
comment on column staged_version.approver_id is 'Who gave the first of two approvals.';
