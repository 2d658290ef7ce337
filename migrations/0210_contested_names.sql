-- Names that one upstream serves, and that an upstream before it in the order has published too.
create table contested_name (
  package_id  bigint not null references mirrored_package (id) on delete cascade,
  upstream_id bigint not null references upstream (id) on delete cascade,
  found_at    timestamptz not null default now(),
  decided_at  timestamptz,
  primary key (package_id, upstream_id)
);
comment on column contested_name.upstream_id is 'The upstream that has published the name, and comes before the one that serves it.';
comment on column contested_name.decided_at is 'When an admin decided that the other upstream goes on serving the name. Null: nothing is decided.';
create index on contested_name (upstream_id);

alter table upstream add column asked_until text not null default '';
comment on column upstream.asked_until is 'The last name about which a job asked it, of those that upstreams after it serve. Empty before the first.';
