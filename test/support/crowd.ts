import type pg from 'pg'

type Id = { id: string }

/**
 * Adds a thousand applications, and thousands of accounts, tokens, repositories, trusted publishers and packages. One
 * application is used by everyone, one account uses every application, the trusted publishers name one issuer, and the
 * repository has thousands of packages and members. With fewer, PostgreSQL would rightly read some tables as a whole. Its package acme/lib has a version and a document.
 */
export async function addCrowd(
  db: pg.Pool,
  {
    application,
    account,
    repository,
    issuer,
  }: { application: Id; account: Id; repository: Id; issuer: string },
): Promise<void> {
  await db.query(
    `insert into account (username, password_hash) select 'crowd' || i, '' from generate_series(1, 2000) i`,
  )
  await db.query(
    `insert into application (client_id, name, website, redirect_uri, logo, scopes, resource_scope, status)
     select 'crowd' || i + 100000, name, website, redirect_uri, logo, scopes, resource_scope, status
       from application, generate_series(1, 1000) i`,
  )
  await db.query(
    `insert into application_secret (secret_hash, application_id) select sha256(client_id::bytea), id from application`,
  )
  await db.query(
    `insert into account_authorization (account_id, application_id)
     select id, $1::bigint from account where username like 'crowd%'
     union all
     select $2::bigint, id from application where client_id like 'crowd%'`,
    [application.id, account.id],
  )
  await db.query(
    `insert into authorization_grant (id, authorization_id, account_id, application_id, scopes, resource_scope)
     select a.id, a.id, a.account_id, c.id, c.scopes, 'all' from account_authorization a
       join application c on c.id = a.application_id
     on conflict do nothing`,
  )
  await db.query(
    `insert into token_pair (authorization_id, access_hash, access_scopes, access_expires_at,
                             refresh_hash, refresh_scopes, refresh_expires_at)
     select id, sha256(('a' || id)::bytea), '{account-profile:r}', now() + interval '8 hours',
            sha256(('r' || id)::bytea), '{account-profile:r}', now() + interval '180 days'
       from account_authorization`,
  )
  await db.query(
    `insert into authorization_code (code_hash, authorization_id, redirect_uri, scopes, expires_at)
     select sha256(('c' || id)::bytea), id, 'https://app.example.com/', '{account-profile:r}', now() + interval '10 minutes'
       from account_authorization`,
  )
  await db.query(
    `insert into personal_token (account_id, name, token_hash, scopes, resource_scope, expires_at)
     select id, 'crowd', sha256(('p' || id)::bytea), '{registry-package:r}', 'all', now() + interval '90 days' from account`,
  )
  await db.query(
    `insert into repository (group_id, name, description)
     select group_id, 'crowd' || i, repeat('x', 350) from repository r, generate_series(1, 2000) i where r.id = $1`,
    [repository.id],
  )
  await db.query(
    `insert into trusted_publisher (repository_id, provider, issuer, project, packages, token_right, reaches_private_hosts)
     select id, 'github', $1, 'crowd/' || id, '{*/*}', 'publish', false from repository`,
    [issuer],
  )
  await db.query(
    `insert into publisher_token (token_hash, repository_id, publisher_id, publisher_ids, rights, role, scopes, run, expires_at)
     select sha256(('w' || p.id || '-' || i)::bytea), p.repository_id, p.id, array[p.id], '[]', 'developer',
            '{registry-package:rw}', '{}', now() + interval '15 minutes'
       from trusted_publisher p, generate_series(1, 3) i`,
  )
  await db.query(
    `insert into repository_member (repository_id, account_id, role)
     select $1, id, 'guest' from account where username like 'crowd%'`,
    [repository.id],
  )
  await db.query(
    `insert into package (repository_id, name) select $1, 'crowd/p' || i from generate_series(1, 2000) i`,
    [repository.id],
  )
  await db.query(
    `insert into package_document (package_id, repository_id, is_dev, base_url, last_modified, plain, gzip, brotli)
     select p.id, p.repository_id, d.is_dev, d.base_url, d.last_modified, d.plain, d.gzip, d.brotli
       from package p, package_document d join package o on o.id = d.package_id
      where p.name like 'crowd/%' and o.name = 'acme/lib'`,
  )
  await db.query(
    `insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256)
     select p.id, v.version, v.composer, v.normalized, v.is_dev, v.sort_key, v.metadata, v.sha256
       from package p, package_version v where p.name like 'crowd/%'`,
  )
}
