import pg from 'pg'

/** The sizes of the data. */
export interface Sizes {
  /** The number of packages in one repository. */
  packages: number
  /** The number of versions of all these packages together. */
  versions: number
  /** The number of repositories, in 100 groups. The member is a guest of each group. */
  repositories: number
  tokenPairs: number
}

/** The package that gets 20,000 versions. It must exist in the repository. */
export const largePackage = 'large/package'

/** How many rows one statement inserts. */
const step = 100_000

/**
 * Fills the database with SQL: a repository with many packages and their documents, many repositories, and many tokens.
 * The rows are like those of pushes and sign-ins, so every index grows.
 */
export async function fill(
  db: pg.Pool,
  sizes: Sizes,
  { repositoryId, memberId }: { repositoryId: string; memberId: string },
): Promise<void> {
  const { options } = db
  const client = new pg.Client({ ...options, password: options.password, query_timeout: 0 })
  await client.connect()
  try {
    await client.query(`set statement_timeout = 0; set synchronous_commit = off`)
    await fillPackages(client, repositoryId, sizes)
    await fillLargePackage(client, repositoryId)
    await sumUpDownloads(client)
    await fillRepositories(client, memberId, sizes)
    await fillTokens(client, sizes)
    await client.query('vacuum analyze')
    await client.query('checkpoint')
  } finally {
    await client.end()
  }
}

async function fillPackages(client: pg.Client, repositoryId: string, sizes: Sizes): Promise<void> {
  const nouns = ['http', 'log', 'cache', 'queue', 'mail', 'view', 'router', 'console']
  await inSteps(sizes.packages, (from, to) =>
    client.query(
      `insert into package (repository_id, name, description, keywords, type)
       select $1, 'vendor' || i % 2000 || '/' || ($2::text[])[1 + i % 8] || '-' || left(md5(i::text), 10),
              'A package that is as large as packages are, number ' || i || ', with a sentence about it.',
              '{http,message,client}', case when i % 1000 = 0 then 'composer-plugin' else 'library' end
         from generate_series($3::int, $4::int) i`,
      [repositoryId, nouns, from, to],
    ),
  )
  await client.query(
    `insert into archive (sha256, sha1, size)
     select sha256(i::text::bytea), substr(sha256(i::text::bytea), 1, 20), 1 from generate_series(0, 999) i
     on conflict do nothing`,
  )
  const perPackage = Math.max(Math.round(sizes.versions / sizes.packages), 1)
  const { rows } = await client.query<{ first: string }>(
    `select min(id) as first from package where repository_id = $1 and name like 'vendor%'`,
    [repositoryId],
  )
  const first = Number(rows[0]?.first)
  await inSteps(sizes.packages, (from, to) =>
    client.query(
      `insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256,
                                    published_at, difference)
       select p.id, '1.' || n || '.0', '1.' || n || '.0', '1.' || n || '.0.0', false, lpad(n::text, 20, '0'),
              json_build_object('name', p.name, 'description', p.description, 'require', '{"php":">=8.1"}'::json),
              sha256((p.id % 1000)::text::bytea), now() - interval '100 days' + n * interval '1 day',
              json_build_object('name', p.name, 'version', '1.' || n || '.0')::text
         from package p, generate_series(1, $4) n
        where p.repository_id = $1 and p.id between $2 and $3 and p.name like 'vendor%'`,
      [repositoryId, first + from - 1, first + to - 1, perPackage],
    ),
  )
  await inSteps(sizes.packages, (from, to) =>
    client.query(
      `insert into package_document (package_id, repository_id, is_dev, base_url, last_modified, plain, gzip, brotli)
       select p.id, p.repository_id, is_dev, 'http://svc.test', now() - interval '30 days' + (p.id - $2) / 20 * interval '1 second',
              'document', 'document', 'document'
         from package p, unnest(array[false, true]) is_dev
        where p.repository_id = $1 and p.id between $2 and $3 and p.name like 'vendor%'`,
      [repositoryId, first + from - 1, first + to - 1],
    ),
  )
  await client.query(
    `insert into package_rank (package_id, repository_id) select id, repository_id from package on conflict do nothing`,
  )
  await client.query(
    `insert into package_download (version_id, day, count)
     select id, current_date - (id % 90)::int, id % 100 + 1 from package_version where id % 10 = 0
     on conflict do nothing`,
  )
  await client.query(
    `insert into event (repository_id, package, version, action)
     select $1, 'vendor' || i % 2000 || '/log', '1.0.0', 'publish' from generate_series(1, $2::int) i`,
    [repositoryId, sizes.versions],
  )
}

/**
 * Gives the large package 20,000 versions with the archive of its first version. All other packages of the repository
 * require it.
 */
async function fillLargePackage(client: pg.Client, repositoryId: string): Promise<void> {
  await client.query(
    `insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256, uploader_id)
     select v.package_id, '0.' || n || '.0', '0.' || n || '.0', '0.' || n || '.0.0', false, '0' || lpad(n::text, 8, '0'),
            v.metadata, v.sha256, v.uploader_id
       from package p join package_version v on v.package_id = p.id, generate_series(1, 19999) n
      where p.repository_id = $1 and p.name = $2`,
    [repositoryId, largePackage],
  )
  await client.query(
    `insert into package_download (version_id, day, count)
     select v.id, current_date - days, 1
       from package p join package_version v on v.package_id = p.id, generate_series(0, 29) days
      where p.repository_id = $1 and p.name = $2`,
    [repositoryId, largePackage],
  )
  await client.query(
    `insert into package_dependency (target, repository_id, package_id, is_dev, requirement)
     select $2, repository_id, id, false, '^1.0' from package where repository_id = $1 and name <> $2`,
    [repositoryId, largePackage],
  )
  await client.query(
    `insert into event (repository_id, package, version, action)
     select $1, $2, '0.' || n || '.0', 'publish' from generate_series(1, 20000) n`,
    [repositoryId, largePackage],
  )
}

/** Adds the filled days of versions to those of packages, and to the totals. */
async function sumUpDownloads(client: pg.Client): Promise<void> {
  await client.query(
    `with day_of_version as (
       select v.package_id, d.version_id, d.day, d.count
         from package_download d join package_version v on v.id = d.version_id
     ), versions as (
       insert into version_download_total (version_id, count)
       select version_id, sum(count) from day_of_version group by version_id on conflict do nothing
     ), packages as (
       insert into package_download_total (package_id, count)
       select package_id, sum(count) from day_of_version group by package_id on conflict do nothing
     )
     insert into package_download_day (package_id, day, count)
     select package_id, day, sum(count) from day_of_version group by package_id, day on conflict do nothing`,
  )
}

async function fillRepositories(client: pg.Client, memberId: string, sizes: Sizes): Promise<void> {
  await client.query(
    `with groups as (
       insert into repository_group (name) select 'large' || i from generate_series(1, 100) i returning id
     ), members as (
       insert into group_member (group_id, account_id, role) select id, $1, 'guest' from groups
     )
     insert into repository (group_id, name, description)
     select id, 'repo' || i, 'A repository with a description of the usual length, number ' || i
       from groups, generate_series(1, $2::int) i`,
    [memberId, Math.ceil(sizes.repositories / 100)],
  )
}

/** Inserts token pairs of 10,000 authorizations. As after many refreshes, most pairs are superseded. */
async function fillTokens(client: pg.Client, sizes: Sizes): Promise<void> {
  if (sizes.tokenPairs === 0) return
  await client.query(
    `with accounts as (
       insert into account (username, password_hash) select 'large' || i, '' from generate_series(1, 10000) i returning id
     ), application as (
       insert into application (client_id, name, website, redirect_uri, logo, scopes, resource_scope, status)
       values ('largelarge', 'Large', 'https://large.example.com', 'https://large.example.com/', '\\x89504e470d0a1a0a',
               '{account-profile:r}', 'all', 'approved') returning id
     ), authorizations as (
       insert into account_authorization (account_id, application_id)
       select accounts.id, application.id from accounts, application
       returning id, account_id, application_id
     )
     insert into authorization_grant (id, authorization_id, account_id, application_id, scopes, resource_scope)
     select id, id, account_id, application_id, '{account-profile:r}', 'all' from authorizations`,
  )
  await client.query(
    `create temporary table grant_number as
     select g.id, row_number() over (order by g.id) - 1 as n from authorization_grant g
       join application c on c.id = g.application_id where c.client_id = 'largelarge'`,
  )
  await client.query('create unique index on grant_number (n)')
  await inSteps(sizes.tokenPairs, (from, to) =>
    client.query(
      `insert into token_pair (authorization_id, grant_id, access_hash, access_expires_at, refresh_hash,
                               refresh_expires_at, superseded_at)
       select g.id, g.id, sha256(('a' || i)::bytea), now() + interval '8 hours', sha256(('r' || i)::bytea),
              now() + interval '180 days', case when i % 10 > 0 then now() end
         from generate_series($1::int, $2::int) i join grant_number g on g.n = i % 10000`,
      [from, to],
    ),
  )
}

async function inSteps(count: number, insert: (from: number, to: number) => Promise<unknown>): Promise<void> {
  for (let from = 1; from <= count; from += step) await insert(from, Math.min(from + step - 1, count))
}
