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
  const registryEvents = () =>
    ask(`select id, happened_at, repository_id, group_id, package, version, action, account_id, token_kind, token_id,
                address, details from registry_event order by id`)
  const identityEvents = () =>
    ask(`select id, happened_at, action, account_id, application_id, actor_id, via, address, user_agent, request_id,
                details from identity_event order by id`)
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
    expect(await registryEvents()).toEqual(former.registry)
    expect(await identityEvents()).toEqual(former.identity)
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

  it('lets the previous release insert, erase and remove events', async () => {
    await ask('delete from unlogged_identity_event')
    await ask(`
      insert into registry_event (repository_id, package, version, action, account_id, token_kind, token_id, address, details)
      values (1, 'acme/lib', '2.0.0', 'purge', 7, 'deploy', 3, '192.0.2.3', '{"size": 2}');
      insert into identity_event (action, account_id, application_id, via, address, user_agent, request_id)
      select 'code-replayed', 7, 8, 'application', '192.0.2.3', null, 'request'`)
    const [registry] = await ask('select * from registry_event order by id desc limit 1')
    expect(registry).toMatchObject({
      action: 'purge',
      account_id: '7',
      address: '192.0.2.3',
      details: { size: 2 },
    })
    const [identity] = await ask('select * from identity_event order by id desc limit 1')
    expect(identity).toMatchObject({
      action: 'code-replayed',
      application_id: '8',
      user_agent: null,
      details: {},
    })
    expect(await ask('select event_id from unlogged_identity_event')).toEqual([
      { event_id: identity?.['id'] },
    ])
    await ask(`
      begin;
      set local svc.event_sweep = 'on';
      update identity_event e set address = null where id = ${String(identity?.['id'])};
      delete from registry_event where id = ${String(registry?.['id'])};
      commit`)
    expect(await ask('select address from identity_event order by id desc limit 1')).toEqual([
      { address: null },
    ])
    expect((await ask('select action from registry_event order by id desc limit 1'))[0]).toEqual({
      action: 'publish',
    })
    await expect(ask('delete from registry_event')).rejects.toThrow('event is append-only')
  })

  it('lets the previous release count failed sign-ins', async () => {
    for (let attempt = 0; attempt < 3; attempt += 1)
      await ask(`select note_failed_sign_in(null, '192.0.2.4', 'browser', '192.0.2.4', 'curl/8', 'request')`)
    expect(
      await ask(`select action, via, address, user_agent, request_id, details ->> 'attempts' as attempts from identity_event
                  where action = 'sign-in-failed'`),
    ).toEqual([
      {
        action: 'sign-in-failed',
        via: 'browser',
        address: '192.0.2.4',
        user_agent: 'curl/8',
        request_id: 'request',
        attempts: '3',
      },
    ])
  })
})
