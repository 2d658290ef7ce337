import type pg from 'pg'
import { insertArchive } from '../src/archives/tables/archives.ts'
import { readVersion } from '../src/composer/composer-version.ts'
import { transaction } from '../src/database/database.ts'
import { noteListingChange } from '../src/documents/listing.ts'
import { operator } from '../src/domain/principal.ts'
import type { Repository } from '../src/groups/repositories.ts'
import { renderDocument, renderEntries } from '../src/packages/documents/render.ts'
import { claimPackage, copyFromLatest } from '../src/packages/tables/packages.ts'
import { insertVersion } from '../src/packages/tables/versions.ts'
import { aMember, anAccount, aPersonalToken, aRepository } from '../test/support/actors.ts'
import { basic } from '../test/support/registry-actors.ts'

/** A repository, and the Authorization header of an account that may push to it. */
export interface Registry {
  repository: Repository
  /** The path of the registry URL. It ends with a slash. */
  path: string
  authorization: string
}

/** Returns a composer.json of usual size. */
export function aManifest(name: string): Record<string, string | string[] | Record<string, string>> {
  return {
    name,
    description: 'An example package of a typical size, with a sentence that describes what it is for.',
    keywords: ['http', 'message', 'client', 'psr-7', 'psr-18'],
    homepage: 'https://packages.example.com/a-package',
    type: 'library',
    license: ['MIT'],
    require: { php: '>=8.1', 'ext-json': '*', 'psr/log': '^3.0', 'psr/http-message': '^2.0' },
    'require-dev': { 'phpunit/phpunit': '^10.5', 'phpstan/phpstan': '^1.11' },
    suggest: { 'ext-curl': 'For requests that finish sooner.' },
  }
}

/** Creates an empty repository with a developer and a token. */
export async function aRegistry(db: pg.Pool, visibility: Repository['visibility']): Promise<Registry> {
  const repository = await aRepository(db, { visibility })
  const account = await anAccount(db)
  await aMember(db, account, repository, 'developer')
  const authorization = basic(await aPersonalToken(db, account))
  return { repository, path: `/${repository.path}/-/packages/`, authorization }
}

/**
 * Inserts data that the measured requests do not read: 1,000 repositories with 10 packages each, 10,000 accounts, and
 * 100,000 tokens of each kind.
 */
export async function seedCrowd(db: pg.Pool): Promise<void> {
  await db.query(`
    with accounts as (
      insert into account (username, password_hash) select 'crowd' || i, '' from generate_series(1, 10000) i
      returning id
    ), groups as (
      insert into repository_group (name) select 'crowd' || i from generate_series(1, 100) i returning id
    ), repositories as (
      insert into repository (group_id, name) select id, 'repo' || i from groups, generate_series(1, 10) i
      returning id
    ), members as (
      insert into repository_member (repository_id, account_id, role)
      select r.id, a.id, 'developer' from repositories r join accounts a on a.id % 1000 = r.id % 1000
    ), packages as (
      insert into package (repository_id, name) select id, 'crowd/lib' || i from repositories, generate_series(1, 10) i
    ), personal as (
      insert into personal_token (account_id, name, token_hash, scopes, resource_scope, expires_at)
      select id, 't' || i, sha256(('p' || id || ' ' || i)::bytea), '{registry-package:r}', 'all', now() + interval '90 days'
        from accounts, generate_series(1, 10) i
    ), application as (
      insert into application (client_id, name, website, redirect_uri, logo, scopes, resource_scope, status)
      values ('crowdcrowd', 'Crowd', 'https://crowd.example.com', 'https://crowd.example.com/', '\\x89504e470d0a1a0a',
              '{account-profile:r}', 'all', 'approved')
      returning id
    ), authorizations as (
      insert into account_authorization (account_id, application_id)
      select accounts.id, application.id from accounts, application
      returning id, account_id, application_id
    ), grants as (
      insert into authorization_grant (id, authorization_id, account_id, application_id, scopes, resource_scope)
      select id, id, account_id, application_id, '{account-profile:r}', 'all' from authorizations
    )
    insert into token_pair (authorization_id, access_hash, access_scopes, access_expires_at,
                            refresh_hash, refresh_scopes, refresh_expires_at)
    select id, sha256(('a' || id || ' ' || i)::bytea), '{account-profile:r}', now() + interval '8 hours',
           sha256(('r' || id || ' ' || i)::bytea), '{account-profile:r}', now() + interval '180 days'
      from authorizations, generate_series(1, 10) i`)
  // The server would write the events of all these rows to its log while it is measured.
  await db.query('truncate unlogged_identity_event')
}

/**
 * Gives a package the versions 1.0.<from> to 1.0.<to - 1> in one transaction, with the rows and documents that pushes
 * write.
 */
export async function growPackage(
  db: pg.Pool,
  repositoryId: string,
  { name, from = 0, to, baseUrl }: { name: string; from?: number; to: number; baseUrl: string },
): Promise<void> {
  await transaction(db, async (tx) => {
    const held = await claimPackage(tx, repositoryId, name, operator)
    for (let patch = from; patch < to; patch += 1) {
      const sha256 = Buffer.from(`${name} ${patch}`).toString('hex').padEnd(64, '0').slice(-64)
      await insertArchive(tx, { sha256, sha1: sha256.slice(-40), size: 1 })
      await insertVersion(tx, {
        packageId: held.id,
        version: readVersion(`1.0.${patch}`),
        metadata: aManifest(name),
        sha256,
        uploaderId: null,
        run: null,
        deployTokenId: null,
      })
    }
    await renderEntries(tx, held, false, baseUrl)
    await copyFromLatest(tx, held)
    await renderDocument(tx, held, false, baseUrl)
    await renderDocument(tx, held, true, baseUrl)
  })
}

/** Inserts the packages `<vendor>/lib<i>`, and marks packages.json as outdated. */
export async function claimPackages(
  db: pg.Pool,
  repositoryId: string,
  { vendor, count }: { vendor: string; count: number },
): Promise<void> {
  await transaction(db, async (tx) => {
    for (let i = 0; i < count; i += 1) await claimPackage(tx, repositoryId, `${vendor}/lib${i}`, operator)
    await noteListingChange(tx, repositoryId)
  })
}
