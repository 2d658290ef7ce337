-- A grant is one act of consent (DESIGN §1). The grant of a token decides what the token may do, and whether it is live:
-- a refresh writes one new row and updates one, and a revocation writes one row, whatever number of tokens it ends.
--
-- For processes of the previous release: its functions keep their signatures, and its columns and tables stay until the next
-- release drops them. It inserts codes without a
-- grant and reads token_pair.authorization_id, so a row without grant_id belongs to the authorization's first grant,
-- whose id is that of the authorization. Both tables draw their ids from one sequence.

-- Locks are taken in the order in which running statements take them: a token check locks the view, then its tables.
-- The view is created again from functions/ in this transaction. No consent or withdrawal may happen in between.
drop view live_token;
lock table account_authorization in share row exclusive mode;

create table authorization_grant (
  id               bigint primary key default nextval('account_authorization_id_seq'),
  authorization_id bigint not null,
  account_id       bigint not null,
  application_id   bigint not null,
  scopes           text[] not null,
  resource_scope   resource_scope not null,
  repository_ids   bigint[] not null default '{}',
  granted_at       timestamptz default now(),
  ended_at         timestamptz,
  epoch            integer not null default 0,
  replayed_codes   bytea[] not null default '{}'
) with (fillfactor = 90);
comment on table authorization_grant is 'One act of consent. An authorization is the set of its grants.';
comment on column authorization_grant.account_id is
  'Like application_id a copy from the authorization, so that a token check reads one row less. Neither ever changes.';
comment on column authorization_grant.repository_ids is
  'The chosen repositories, when the resource scope is specified. Ids are never reused, so the id of a deleted repository allows nothing.';
comment on column authorization_grant.granted_at is
  'Null for a grant that was made from an authorization of the release before grants. Such an authorization may hold several acts of consent, so it never replaces the consent page.';
comment on column authorization_grant.epoch is
  'Every pair copies it. Increasing it ends all pairs made before, also one that a racing refresh is about to commit.';
comment on column authorization_grant.replayed_codes is
  'Hashes of codes that were used twice: the pairs that came from them are dead (RFC 6749 §4.1.2).';

insert into authorization_grant (id, authorization_id, account_id, application_id, scopes, resource_scope,
                                 repository_ids, granted_at)
select a.id, a.id, a.account_id, a.application_id, a.scopes, a.resource_scope,
       array(select repository_id from authorization_repository where authorization_id = a.id), null
  from account_authorization a
 where a.ended_at is null;

-- After the copy, which this makes faster. The copied scopes were checked in account_authorization.
create index on authorization_grant (authorization_id);
alter table authorization_grant
  add foreign key (authorization_id) references account_authorization (id) on delete cascade,
  add constraint grant_scopes_are_predefined check (are_scopes(scopes)) not valid;

alter table account_authorization set (fillfactor = 80);
comment on table account_authorization is 'All grants of one account to one application: the unit of revocation.';
comment on column account_authorization.scopes is 'Of the first grant, like resource_scope. Only the previous release reads them.';
comment on table authorization_repository is 'Only the previous release reads it: see authorization_grant.repository_ids.';

-- When an authorization ends, a trigger ends its grants.
create function end_grants() returns trigger language plpgsql as $$
begin
  update authorization_grant set ended_at = new.ended_at where authorization_id = new.id and ended_at is null;
  return null;
end
$$;
create trigger authorization_ends_its_grants
  after update of ended_at on account_authorization
  for each row when (new.ended_at is not null and old.ended_at is null) execute function end_grants();

alter table authorization_code
  add column grant_id bigint,
  set (fillfactor = 70);
comment on column authorization_code.grant_id is
  'Null in a row of the previous release: the first grant. No foreign key: codes are deleted with their authorization.';

-- Until now the last use of an authorization was the time of its newest pair, if none of its tokens was used.
update account_authorization a
   set last_used_at = (select max(created_at) from token_pair where authorization_id = a.id)
 where a.last_used_at is null and a.ended_at is null
   and exists (select from token_pair where authorization_id = a.id);

lock table token_pair in access exclusive mode;
-- Seals are wiped in the order of the pairs that superseded them. Only those not wiped yet need the link.
update token_pair p
   set sealed_successor = null
 where sealed_successor is not null and refresh_expires_at <= now();
alter table token_pair
  add column grant_id bigint,
  add column epoch integer not null default 0,
  add column predecessor_id bigint;
update token_pair p
   set predecessor_id = sealed.id
  from token_pair sealed
 where sealed.sealed_successor is not null and p.id = sealed.successor_id;

-- Where sweeps continue. Each reads its table in the order of the rows, so that it needs no index.
-- This comes before the index on seals is dropped, because it reads that index.
create table sweep_position (
  name        text primary key,
  pair_id     bigint not null default 0,
  reached_at  timestamptz not null default '-infinity'
);
insert into sweep_position (name, pair_id)
values ('sealed_pairs', coalesce((select min(successor_id) from token_pair where sealed_successor is not null), 1) - 1),
       ('expired_pairs', 0), ('remaining_pairs', 0), ('unused_codes', 0);

-- A refresh updates the pair in its page (HOT): no index has a column that it changes, and pages keep room for it.
-- Foreign keys would lock the grant and the code at every insert. They are not needed: a pair without a grant is dead,
-- and the sweep removes it when it has expired.
drop index token_pair_authorization_id_idx, token_pair_code_hash_idx, token_pair_refresh_expires_at_idx,
           token_pair_to_unseal;
alter table token_pair
  drop constraint token_pair_authorization_id_fkey,
  drop constraint token_pair_code_hash_fkey,
  alter column access_scopes drop not null,
  alter column refresh_scopes drop not null,
  set (fillfactor = 50);
comment on column token_pair.grant_id is 'Null in a row of the previous release: the first grant of the authorization.';
comment on column token_pair.epoch is 'Of the grant when the first pair of this line was made: the pair is dead when they differ.';
comment on column token_pair.access_scopes is 'Null: those of the refresh token.';
comment on column token_pair.refresh_scopes is 'Null: all of the grant.';
comment on column token_pair.predecessor_id is 'The pair that this one superseded.';
