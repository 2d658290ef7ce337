import { cp, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { builtInMigrations, migrate } from '../../src/database/migrate.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { useDatabase } from '../support/database.ts'

describe('the migration from two logs to one', () => {
  const database = useDatabase('template1')
  const ask = async (sql: string) => (await database.db.query<Record<string, unknown>>(sql)).rows
  const registryEvents = (from = 'registry_event', account = 'account_id') =>
    ask(`select id, happened_at, repository_id, group_id, package, version, action, ${account}, token_kind, token_id,
                address, details from ${from} order by id`)
  const identityEvents = (from = 'identity_event') =>
    ask(`select id, happened_at, action, account_id, application_id, actor_id, via, address, user_agent, request_id,
                details from ${from} order by id`)
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-one-log-'))
    await cp(join(builtInMigrations, 'baseline'), join(folder, 'baseline'), { recursive: true })
    await mkdir(join(folder, 'functions'))
    for (const name of ['are_scopes', 'image_type', 'is_plain_text', 'refuse_change', 'refuse_event_change'])
      await cp(join(builtInMigrations, `functions/${name}.sql`), join(folder, `functions/${name}.sql`))
    await migrateTo('0239')
    await ask(`
      insert into registry_event (happened_at, repository_id, package, version, action, account_id, token_kind, token_id,
                                  address, details)
      select now() - i * interval '1 hour', i % 3, 'acme/lib', '1.0.' || i, 'publish', 7, 'personal', 9, '192.0.2.1',
             '{"size": 1}'
        from generate_series(1, 5000) i;
      insert into registry_event (group_id, action, account_id, details)
      values (4, 'set-group-member', 7, '{"username": "ann", "role": "admin"}');
      insert into identity_event (happened_at, action, account_id, application_id, actor_id, via, address, user_agent,
                                  request_id, details)
      select now() - i * interval '1 minute', 'sign-in', 7, 8, 7, 'browser', '192.0.2.2', 'curl/8', 'request-' || i,
             '{"session": "0123"}'
        from generate_series(1, 6000) i`)
    await ask(`insert into job_kind (name, succeeded_at) values ('sweep-identity-events', now())`)
    await migrateTo('0240')
  })
  afterAll(() => rm(folder, { recursive: true }))

  /** Applies the numbered migrations up to a number. */
  async function migrateTo(number: string): Promise<void> {
    for (const name of await readdir(builtInMigrations))
      if (/^\d/.test(name) && name.slice(0, 4) <= number)
        await cp(join(builtInMigrations, name), join(folder, name))
    await migrate(database.db, folder, folder)
  }

  it('keeps every event with its id, also those that the previous release writes, erases and removes meanwhile', async () => {
    await ask(`
      insert into registry_event (repository_id, action) values (1, 'change-repository');
      insert into identity_event (action, account_id, details) values ('account-renamed', 7, '{"from": "ann", "to": "bob"}')`)
    await ask(`
      begin;
      set local svc.event_sweep = 'on';
      update registry_event set address = null where id in (10, 4000);
      update identity_event set details = details - array['username', 'email', 'from', 'to'] where action = 'account-renamed';
      delete from registry_event where id in (11, 4001);
      delete from identity_event where id in (12, 5001);
      commit`)
    const former = { registry: await registryEvents(), identity: await identityEvents() }
    expect([former.registry.length, former.identity.length]).toEqual([5000, 5999])
    // A step that a crash repeats copies nothing twice.
    await migrateTo('0241')
    await ask(`delete from applied_migration where name like '0241%'`)
    await migrate(database.db, null)
    const isIdentity = 'repository_id is null and group_id is null'
    expect(await registryEvents(`event where not (${isIdentity})`, 'actor_id as account_id')).toEqual(
      former.registry,
    )
    expect(await identityEvents(`event where ${isIdentity}`)).toEqual(former.identity)
    expect(await ask('select count(*)::int from event')).toEqual([{ count: 10_999 }])
  })

  it('lets the events of before be in the activity of their group', async () => {
    expect(await ask('select distinct group_id, in_group_id from event order by 1')).toEqual([
      { group_id: '4', in_group_id: '4' },
      { group_id: null, in_group_id: null },
    ])
  })

  it('removes the job of the second sweep, whose last success would become an alert', async () => {
    expect(await ask(`select name from job_kind where name like 'sweep%'`)).toEqual([])
  })

  it('gives new events ids that no event had', async () => {
    await ask(
      `select insert_events('[{"action": "sign-out", "account_id": 7}, {"action": "publish", "repository_id": 1}]')`,
    )
    const [identity] = await listEvents(database.db, { subjectId: '7' }, { after: null, limit: 1 })
    const [registry] = await listEvents(database.db, { leavesOutIdentities: true }, { after: null, limit: 1 })
    expect(identity).toMatchObject({ id: '6002', action: 'sign-out' })
    expect(registry).toMatchObject({ id: '6003', action: 'publish' })
  })
})
