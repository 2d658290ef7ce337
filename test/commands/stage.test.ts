import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { measureGroup } from '../../src/archives/tables/archives.ts'
import { groupOf } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import { eventsOf } from '../support/event-rows.ts'
import { countWaiting, whileLocked } from '../support/locks.ts'
import { program } from '../support/program.ts'
import { aPackageZip, aPublisher, expand } from '../support/registry-actors.ts'
import { runCommand } from '../support/run-command.ts'
import { storedStateOf } from '../support/stage-rows.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const t = useApp()
const upstream = useUpstream()
const svc = useCommands(t)

async function aStage() {
  const publisher = await aPublisher(t)
  const manifest = { description: publisher.repository.path }
  const { id, sha256 } = (await publisher.stage('1.0.0', { manifest })).json() as {
    id: string
    sha256: string
  }
  const actions = async () =>
    (await eventsOf(t.db, { repositoryId: publisher.repository.id }, ['action', 'via'])).map(
      ({ action, via }) => `${action} ${via}`,
    )
  return { ...publisher, id, sha256, actions, path: publisher.repository.path }
}

it('svc stage lists, shows, releases and rejects, and the events say that it was the command line', async () => {
  const { id, path, sha256, actions, stage, ask, account } = await aStage()
  const second = (await stage('2.0.0')).json().id as string
  expect(
    (await svc.json<{ items: { id: string }[] }>('stage', 'list', path)).items.map((one) => one.id),
  ).toEqual([second, id])
  expect(await svc.json('stage', 'show', id)).toMatchObject({
    id,
    status: 'staged',
    sha256,
    stager: account.username,
  })
  expect(await svc.json('stage', 'release', id)).toMatchObject({ id, path, status: 'released' })
  expect(await svc.fail('stage', 'release', id)).toContain('released already')
  expect(await svc.json('stage', 'reject', second, '--reason', ' broken\nby me')).toMatchObject({
    status: 'rejected',
  })
  expect(await eventsOf(t.db, { action: 'reject' }, ['details'])).toMatchObject([
    { details: { reason: 'broken by me' } },
  ])
  expect(await svc.fail('stage', 'show', '999999')).toContain('There is no staged version "999999".')
  expect(await actions()).toEqual([
    'stage api',
    'stage api',
    'publish command',
    'release-stage command',
    'reject command',
  ])
  expect(expand((await ask('p2/acme/lib.json')).body)).toMatchObject([{ version: '1.0.0' }])
})

it.each([
  ['the version was named and not yet shown', 'package_document'],
  ['all was done but the commit', 'event'],
])(
  'a release that is killed (kill -9) when %s publishes nothing, and the next one publishes once',
  async (_, table) => {
    const { id, ask, actions } = await aStage()
    await whileLocked(
      t.db,
      table,
      async () => {
        const env = { PATH: process.env['PATH'], ...svc.environment }
        const child = spawn(process.execPath, [program, 'stage', 'release', id], { env, stdio: 'ignore' })
        const ended = once(child, 'close')
        await expect.poll(() => countWaiting(t.db)).toBeGreaterThan(0)
        child.kill('SIGKILL')
        expect(await ended).toEqual([null, 'SIGKILL'])
      },
      'exclusive',
    )
    expect(await storedStateOf(t.db, id)).toBe('staged')
    expect((await ask('p2/acme/lib.json')).statusCode).toBe(404)
    await svc.json('stage', 'release', id)
    expect(expand((await ask('p2/acme/lib.json')).body)).toHaveLength(1)
    expect(await actions()).toEqual(['stage api', 'publish command', 'release-stage command'])
  },
)

it('svc repository set makes releases reviewed, and svc import then stages, with the event old → new', async () => {
  const { path, actions, repository, ask } = await aStage()
  const set = await svc.json('repository', 'set', path, '--release', 'reviewed', '--two-people', 'yes')
  expect(set).toMatchObject({ release: 'reviewed', two_people: true })
  const [event] = await eventsOf(t.db, { repositoryId: repository.id, action: 'change-repository' }, [
    'details',
  ])
  expect(event?.details).toEqual({
    release: 'reviewed',
    twoPeople: true,
    from: { release: 'direct', twoPeople: false },
  })
  upstream.put('/archives/acme/tool/1.0.0.zip', aPackageZip('acme/tool'))
  upstream.offer('acme/tool', ['1.0.0'])
  const words = ['import', upstream.url, 'acme/tool', '--into', path, '--json']
  const imported = await runCommand(words, { ...svc.environment, ...upstreamsHere })
  expect(JSON.parse(imported.stdout)).toMatchObject({ imported: 0, staged: 1, refused: 0 })
  expect((await ask('p2/acme/tool.json')).statusCode).toBe(404)
  expect(await actions()).toContain('stage command')
})

it('svc import --dry-run foresees what is staged, and what only trusted publishers publish', async () => {
  const { path, push } = await aStage()
  await push('1.0.0', { name: 'acme/limited' })
  const names = ['acme/free', 'acme/lib', 'acme/limited', 'acme/reserved']
  for (const name of names) {
    upstream.put(`/archives/${name}/1.0.0.zip`, aPackageZip(name))
    upstream.put(`/archives/${name}/2.0.0.zip`, aPackageZip(name))
    upstream.offer(name, ['1.0.0', '2.0.0'])
  }
  await svc.json('package', 'set', path, 'acme/limited', '--only-trusted-publishers', 'yes')
  const job = ['--provider', 'github', '--project', 'acme/reserved', '--workflow', 'release.yml']
  await svc.json('trusted-publisher', 'add', path, ...job, '--package', 'acme/reserved', '--right', 'publish')
  const run = async (...more: string[]) => {
    const words = ['import', upstream.url, ...names, '--into', path, '--json', ...more]
    const { stdout } = await runCommand(words, { ...svc.environment, ...upstreamsHere })
    const { items, dry_run: _, ...counts } = JSON.parse(stdout) as { items: object[]; dry_run: boolean }
    return { items, counts }
  }
  const compared = async (counts: object) => {
    const foreseen = await run('--dry-run')
    expect(foreseen.counts).toEqual(counts)
    return foreseen
  }
  const { items } = await compared({ imported: 3, staged: 0, already_there: 2, refused: 3 })
  const refused = expect.stringContaining('only trusted publishers publish acme/limited')
  expect(items).toContainEqual({
    name: 'acme/limited',
    version: '2.0.0',
    outcome: 'refused',
    reason: refused,
  })
  await svc.json('repository', 'set', path, '--release', 'reviewed')
  const foreseen = await compared({ imported: 0, staged: 3, already_there: 2, refused: 3 })
  // Nothing has been changed, and the import does what was foreseen.
  expect(await compared(foreseen.counts)).toEqual(foreseen)
  expect((await run()).items.map(withoutReason)).toEqual(foreseen.items.map(withoutReason))
})

const withoutReason = (item: object) => ({ ...item, reason: null })

it('a staged archive counts for its group, and no garbage collection or deletion of the repository takes it', async () => {
  const { id, sha256, repository, path, ask } = await aStage()
  const group = await groupOf(t.db, repository)
  expect((await measureGroup(t.db, group.id)).stored).toBeGreaterThan(0)
  const { rows } = await t.db.query(
    `select keeps_file from archive_reference where sha256 = decode($1, 'hex')`,
    [sha256],
  )
  expect(rows).toEqual([{ keeps_file: true }])
  const [groupName] = path.split('/')
  await svc.json('repository', 'rename', path, 'renamed')
  await svc.json('repository', 'delete', `${groupName}/renamed`, '--force')
  expect(await svc.fail('stage', 'release', id)).toContain('There is no staged version')
  expect((await measureGroup(t.db, group.id)).stored).toBeGreaterThan(0)
  await svc.json('repository', 'restore', `${groupName}/renamed`)
  expect(await svc.json('stage', 'show', id)).toMatchObject({
    review_url: expect.stringContaining(`/${groupName}/renamed/-/stages/${id}`),
  })
  expect(ask).toBeDefined()
  await svc.json('stage', 'reject', id)
  expect((await measureGroup(t.db, group.id)).stored).toBe(0)
})
