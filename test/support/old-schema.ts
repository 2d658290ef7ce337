import type pg from 'pg'

/** Adds rows to a database of the oldest schema that svc upgrades: many of each kind that later migrations change. */
export async function fillOldSchema(db: pg.Pool, count: number): Promise<void> {
  const unusable =
    '$argon2id$v=19$m=19456,p=1,t=2$zkY1icGpUMymFBlYwv7JiQ$kEpWsGuzHeS+BEd2N9QKnOHJO9MsW7ISXlU+6Q7t9KU'
  await db.query(
    `with accounts as (
       insert into account (username, password_hash) select 'provider' || i, $1 from generate_series(1, $2::int) i
       returning id
     ), applications as (
       insert into application (client_id, name, website, redirect_uri, logo, scopes, resource_scope, status)
       values ('suspended1', 'Suspended', 'https://app.example', 'https://app.example/', '\\x89504e470d0a1a0a',
         '{repo-code:r}', 'all', 'suspended')
       returning id
     )
     insert into account_authorization (account_id, application_id, scopes, resource_scope)
     select accounts.id, applications.id, '{repo-code:r}', 'all' from accounts, applications`,
    [unusable, count],
  )
  await db.query(
    `with groups as (
       insert into repository_group (name) values ('acme') returning id
     ), repositories as (
       insert into repository (group_id, name) select id, 'main' from groups returning id
     ), removed as (
       insert into upstream (repository_id, name, url, position, removed_at)
       select id, 'removed', 'https://removed.example/', 1, now() from repositories returning id
     ), documents as (
       insert into upstream_document (upstream_id, name, is_dev, content, dropped)
       select id, 'mirrored/lib' || i, false, 'x', '{"1.0.0: it has no archive that can be mirrored"}' from removed, generate_series(1, $1::int) i
     ), packages as (
       insert into mirrored_package (repository_id, name)
       select id, 'mirrored/lib' || i from repositories, generate_series(1, $1::int) i
       returning id
     )
     insert into mirrored_document (package_id, is_dev, last_modified, base_url, due_at, plain, gzip, brotli)
     select id, false, now(), 'http://svc.test', 'infinity', 'document', 'document', 'document' from packages`,
    [count],
  )
}

/** Counts the rows of each kind that migrations should have changed and have not. */
export async function countUnchangedRows(db: pg.Pool): Promise<Record<string, number>> {
  const { rows } = await db.query<Record<string, number>>(
    `select (select count(*)::int from account where password_hash is not null) as passwords,
            (select count(*)::int from account_authorization where ended_at is null) as authorizations,
            (select count(*)::int from upstream_document where not is_stale) as documents,
            (select count(*)::int from mirrored_document where due_at > now()) as renderings`,
  )
  return rows[0] ?? {}
}
