import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { builtInMigrations, migrate } from '../../src/database/migrate.ts'
import { useDatabase } from '../support/database.ts'

/** Rows of the release before grants. The hashes are those of short texts. */
const data = `
  insert into account (username, password_hash) values ('ann', '');
  insert into application (client_id, name, website, redirect_uri, logo, scopes, resource_scope, status)
  values ('mirrormirror', 'Mirror', 'https://app.example.com', 'https://app.example.com/', '\\x89504e470d0a1a0a',
          '{registry-package:rw,account-profile:r}', 'specified', 'approved');
  insert into application_secret (secret_hash, application_id) select sha256('secret'), id from application;
  insert into repository_group (name) values ('acme');
  insert into repository (group_id, name) select id, unnest(array['toy', 'prod']) from repository_group;
  insert into account_authorization (account_id, application_id, scopes, resource_scope, ended_at)
  select a.id, c.id, '{registry-package:rw}', 'specified', now() from account a, application c;
  insert into account_authorization (account_id, application_id, scopes, resource_scope)
  select a.id, c.id, '{registry-package:rw,account-profile:r}', 'specified' from account a, application c;
  insert into authorization_repository (authorization_id, repository_id)
  select a.id, r.id from account_authorization a, repository r where a.ended_at is null and r.name = 'prod';
  insert into authorization_code (code_hash, authorization_id, redirect_uri, scopes, expires_at, redeemed_at)
  select sha256(code::bytea), id, 'https://app.example.com/', '{account-profile:r}', now() + interval '5 minutes', redeemed_at::timestamptz
    from account_authorization, (values ('open', null), ('used', now() - interval '1 minute')) as c (code, redeemed_at)
   where ended_at is null;
  insert into token_pair (authorization_id, code_hash, access_hash, access_scopes, access_expires_at,
                          refresh_hash, refresh_scopes, refresh_expires_at)
  select a.id, case when name = 'used' then sha256('used') end, sha256(('a ' || name)::bytea), '{account-profile:r}',
         now() + interval '8 hours', sha256(('r ' || name)::bytea), p.scopes, now() + interval '180 days'
    from account_authorization a,
         (values ('live', '{account-profile:r}'::text[], false), ('used', '{account-profile:r}', false),
                 ('ended', '{registry-package:rw}', true)) as p (name, scopes, is_ended)
   where (a.ended_at is not null) = is_ended;`

const credentials = `'mirrormirror', sha256('secret')`

describe('0012_grants.sql', () => {
  const database = useDatabase('template1')
  const ask = async (sql: string) => (await database.db.query(sql)).rows

  beforeAll(async () => {
    const old = await mkdtemp(join(tmpdir(), 'svc-test-schema-'))
    for (const name of (await readdir(builtInMigrations)).filter((one) => /^00(?:0\d|1[01])_/.test(one))) {
      await cp(join(builtInMigrations, name), join(old, name))
    }
    await migrate(database.db, old, old)
    await database.db.query(data)
    await ask(
      `select refresh_pair(${credentials}, sha256('r live'), null, sha256('a next'), sha256('r next'), 'seal', 60, 60, 300)`,
    )
    await migrate(database.db, builtInMigrations)
    await rm(old, { recursive: true })
  })

  it('keeps the live tokens, with the scopes and repositories that they had', async () => {
    expect(
      await ask(
        `select name, scopes, array(select r.name from repository r where r.id = any (repository_ids)) as repositories
           from live_token, unnest(array['live', 'next', 'used', 'ended']) as name
          where token_hash = sha256(('a ' || name)::bytea) order by name`,
      ),
    ).toEqual(
      ['live', 'next', 'used'].map((name) => ({
        name,
        scopes: ['account-profile:r'],
        repositories: ['prod'],
      })),
    )
    expect(
      await ask('select last_used_at is not null as used from account_authorization order by id'),
    ).toEqual([{ used: false }, { used: true }])
  })

  it('never treats an earlier grant as a new consent', async () => {
    expect(await ask('select granted_at from authorization_grant')).toEqual([{ granted_at: null }])
  })

  it('lets processes of the previous release exchange, repeat, refresh and revoke', async () => {
    const outcomes = await ask(
      `select (select outcome || ' ' || scopes::text
                 from exchange_code(${credentials}, sha256('open'), null, null, sha256('a 1'), sha256('r 1'), 60, 60)) as code,
              (select outcome || ' ' || encode(sealed_pair, 'escape')
                 from refresh_pair(${credentials}, sha256('r live'), null, sha256('a 2'), sha256('r 2'), 'x', 60, 60, 300)) as again,
              (select outcome || ' ' || scopes::text
                 from refresh_pair(${credentials}, sha256('r next'), null, sha256('a 3'), sha256('r 3'), 'x', 60, 60, 300)) as next,
              (select outcome
                 from refresh_pair(${credentials}, sha256('r used'), '{registry-package:rw}', sha256('a 4'), sha256('r 4'), 'x', 60, 60, 300)) as wider,
              (select outcome
                 from refresh_pair(${credentials}, sha256('r ended'), null, sha256('a 5'), sha256('r 5'), 'x', 60, 60, 300)) as ended`,
    )
    expect(outcomes).toEqual([
      {
        code: 'issued {account-profile:r}',
        again: 'repeated seal',
        next: 'issued {account-profile:r}',
        wider: 'invalid_scope',
        ended: 'invalid_grant',
      },
    ])
    expect(await ask(`select revoke_token(${credentials}, sha256('a 1'))`)).toEqual([{ revoke_token: true }])
    expect(await ask(`select from live_token where token_hash = sha256('a 1')`)).toHaveLength(0)
  })

  it('ends the pairs of an earlier code that is used again (OAUTH 85)', async () => {
    const [{ outcome }] = await ask(
      `select outcome from exchange_code(${credentials}, sha256('used'), null, null, sha256('a 6'), sha256('r 6'), 60, 60)`,
    )
    expect(outcome).toBe('replayed')
    expect(await ask(`select from live_token where token_hash = sha256('a used')`)).toHaveLength(0)
    expect(await ask(`select from live_token where token_hash = sha256('a 3')`)).toHaveLength(1)
  })

  it('assigns the first grant to a code that the previous release issues', async () => {
    await ask(
      `insert into authorization_code (code_hash, authorization_id, redirect_uri, scopes, code_challenge, expires_at)
       select sha256('old'), a.id, 'https://app.example.com/', '{account-profile:r}', null, now() + interval '1 minute'
         from account_authorization a where a.ended_at is null`,
    )
    const [{ outcome }] = await ask(
      `select outcome from exchange_code(${credentials}, sha256('old'), null, null, sha256('a 7'), sha256('r 7'), 60, 60)`,
    )
    expect(outcome).toBe('issued')
    expect(await ask(`select from live_token where token_hash = sha256('a 7')`)).toHaveLength(1)
  })

  it('ends every token when the previous release ends the authorization', async () => {
    await ask('update account_authorization set ended_at = now() where ended_at is null')
    expect(await ask('select from live_token')).toHaveLength(0)
    expect(await ask('select from authorization_grant where ended_at is null')).toHaveLength(0)
  })
})
