import { beforeEach, describe, expect, it } from 'vitest'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import { eventsOf } from '../support/event-rows.ts'
import { aPublisher, expand, type Publisher } from '../support/registry-actors.ts'

const t = useApp()
const svc = useCommands(t)
let publisher: Publisher
let path: string
beforeEach(async () => {
  publisher = await aPublisher(t)
  path = publisher.repository.path
  await publisher.push('1.0.0')
  await publisher.push('1.1.0')
})

const offered = async () => {
  const { statusCode, body } = await publisher.ask('p2/acme/lib.json')
  return statusCode === 200 ? expand(body).map(({ version }) => version) : statusCode
}
const lastEvent = async () => {
  const events = await eventsOf(t.db, {}, ['action', 'actorId', 'repositoryId', 'groupId'])
  const last = events.findLast((event) => event.repositoryId ?? event.groupId)
  return last && { action: last.action, actorId: last.actorId }
}

describe('svc package', () => {
  it('lists the packages of a repository in parts, deleted ones only with --deleted', async () => {
    await publisher.push('1.0.0', { name: 'acme/other' })
    const { items, next } = await svc.json<{ items: object[]; next: string }>(
      ...['package', 'list', path, '--limit', '1'],
    )
    expect(items).toEqual([
      {
        name: 'acme/lib',
        description: '',
        type: 'library',
        latest_version: '1.1.0',
        version_count: 2,
        downloads: 0,
        abandoned: false,
        replacement: null,
        only_trusted_publishers: false,
        deleted: false,
        created_at: expect.any(String),
      },
    ])
    await svc.json('package', 'delete', path, 'acme/other')
    expect((await svc.run('package', 'list', path, '--after', next)).stdout).toBe(
      `${path} has no packages.\n`,
    )
    expect((await svc.run('package', 'list', path, '--deleted')).stdout).toBe(
      'acme/lib  1.1.0  2 versions\nacme/other  -  0 versions  deleted\n',
    )
  })

  it('marks a package as abandoned, with the replacement that Composer names, and as maintained', async () => {
    const abandonment = async () => expand((await publisher.ask('p2/acme/lib.json')).body)[0]?.['abandoned']
    expect(await svc.json('package', 'abandon', path, 'ACME/lib', '--replacement', 'acme/next')).toEqual({
      path,
      package: 'ACME/lib',
      abandoned: true,
      replacement: 'acme/next',
    })
    expect(await abandonment()).toBe('acme/next')
    await svc.json('package', 'abandon', path, 'acme/lib')
    expect(await abandonment()).toBe(true)
    await svc.json('package', 'unabandon', path, 'acme/lib')
    expect(await abandonment()).toBeUndefined()
    expect(await lastEvent()).toEqual({ action: 'unabandon', actorId: null })
  })

  it.each([
    ['nothing', 'The replacement must be the name of a package'],
    ['acme/lib', 'a package cannot replace itself'],
  ])('does not let %s replace a package', async (replacement, message) => {
    expect(await svc.fail('package', 'abandon', path, 'acme/lib', '--replacement', replacement)).toContain(
      message,
    )
  })

  it('deletes a package, which lock files still install, and restores it', async () => {
    const [entry = {}] = expand((await publisher.ask('p2/acme/lib.json')).body)
    const { url } = entry['dist'] as { url: string }
    expect(await svc.json('package', 'delete', path, 'acme/lib')).toEqual({ path, package: 'acme/lib' })
    expect(await offered()).toEqual([])
    const archive = url.slice(url.indexOf('dist/'))
    expect((await publisher.ask(archive)).statusCode).toBe(200)
    await svc.json('package', 'restore', path, 'acme/lib')
    expect(await offered()).toEqual(['1.1.0', '1.0.0'])
    expect(await svc.fail('package', 'restore', path, 'acme/lib')).toContain('was not deleted as a whole')
  })

  it.each([
    ['package', []],
    ['version', ['1.1.0']],
  ])(
    'accepts --force for the deletion of a %s, although nothing asks (CONTRACT 3.4)',
    async (noun, version) => {
      const named = [path, 'acme/lib', ...version]
      await svc.json(noun, 'delete', ...named, '--force')
      expect(await offered()).not.toContain('1.1.0')
      await svc.json(noun, 'restore', ...named)
    },
  )

  it('names a package or a repository that does not exist', async () => {
    expect(await svc.fail('package', 'delete', path, 'acme/none')).toContain(
      `There is no package "acme/none" in ${path}.`,
    )
    expect(await svc.fail('package', 'list', 'acme/none')).toContain('There is no repository "acme/none".')
  })
})

describe('svc version', () => {
  it('lists the versions of a package, newest first, deleted ones only with --deleted', async () => {
    await svc.json('version', 'delete', path, 'acme/lib', '1.1.0')
    const { items } = await svc.json<{ items: object[] }>('version', 'list', path, 'acme/lib')
    expect(items).toMatchObject([
      {
        version: '1.0.0',
        composer_version: '1.0.0',
        uploader: publisher.account.username,
        deleted_at: null,
        quarantine_reason: null,
      },
    ])
    const { stdout } = await svc.run('version', 'list', path, 'acme/lib', '--deleted')
    expect(stdout).toMatch(/^1\.1\.0 {2}\S+ {2}\d+ bytes {2}deleted\n1\.0\.0 {2}\S+ {2}\d+ bytes\n$/)
    const first = await svc.json<{ next: string }>(
      ...['version', 'list', path, 'acme/lib', '--deleted', '--limit', '1'],
    )
    const second = await svc.json<{ items: object[] }>(
      ...['version', 'list', path, 'acme/lib', '--deleted', '--after', first.next],
    )
    expect(second.items).toMatchObject([{ version: '1.0.0' }])
  })

  it('deletes and restores a version', async () => {
    expect(await svc.json('version', 'delete', path, 'acme/lib', '1.1.0')).toEqual({
      path,
      package: 'acme/lib',
      version: '1.1.0',
    })
    expect(await offered()).toEqual(['1.0.0'])
    await svc.json('version', 'restore', path, 'acme/lib', '1.1.0')
    expect(await offered()).toEqual(['1.1.0', '1.0.0'])
    expect(await svc.fail('version', 'restore', path, 'acme/lib', '1.1.0')).toContain(
      'version 1.1.0 is not deleted',
    )
  })

  it('quarantines a version with a reason, and releases it', async () => {
    const words = [path, 'acme/lib', '1.1.0']
    expect(await svc.json('version', 'quarantine', ...words, '--reason', ' a stolen token ')).toMatchObject({
      version: '1.1.0',
      reason: 'a stolen token',
    })
    expect(await offered()).toEqual(['1.0.0'])
    expect((await svc.run('version', 'list', path, 'acme/lib')).stdout).toContain(
      'quarantined: a stolen token',
    )
    await svc.json('version', 'release', ...words)
    expect(await offered()).toEqual(['1.1.0', '1.0.0'])
    expect(await svc.fail('version', 'release', ...words)).toContain('is not in quarantine')
    expect(await svc.fail('version', 'quarantine', ...words, '--reason', 'a\nb')).toContain('Give a reason')
  })

  it('names a version that does not exist', async () => {
    expect(await svc.fail('version', 'delete', path, 'acme/lib', '9.9.9')).toContain(
      `There is no version "9.9.9" of acme/lib in ${path}.`,
    )
  })
})

describe('svc advisory', () => {
  const publish = (...words: string[]) => svc.json('advisory', 'add', path, 'acme/lib', ...words)
  const audited = async () => {
    const { body } = await publisher.ask('security-advisories', {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      payload: 'packages[]=acme/lib',
    })
    return (JSON.parse(body).advisories['acme/lib'] ?? []) as object[]
  }

  it('publishes advisories that an audit sees, lists them in parts, and withdraws them', async () => {
    const more = ['--cve', 'CVE-2026-12345', '--severity', 'high', '--link', 'https://example.com/17']
    const first = await publish('--title', 'Path traversal', '--affected', '<1.1.0', ...more)
    expect(first).toMatchObject({ package: 'acme/lib', cve: 'CVE-2026-12345', severity: 'high' })
    const second = await publish('--title', 'Second', '--affected', '*')
    expect(await audited()).toMatchObject([{ title: 'Path traversal' }, { title: 'Second' }])

    const list = (...words: string[]) =>
      svc.json<{ items: object[]; next: string }>('advisory', 'list', path, 'acme/lib', ...words)
    const part = await list('--limit', '1')
    expect([part.items, part.next]).toMatchObject([[{ title: 'Path traversal' }], first['advisory_id']])
    expect((await list('--after', part.next)).items).toMatchObject([{ title: 'Second' }])

    const withdrawn = ['advisory', 'withdraw', path, 'acme/lib', second['advisory_id'] ?? '', '--force']
    await svc.json(...withdrawn)
    expect(await audited()).toMatchObject([{ title: 'Path traversal' }])
    expect(await svc.fail(...withdrawn)).toContain('There is no advisory "SVC-')
  })

  it.each([
    ['--affected', 'x y z', 'The affected versions must be a version constraint'],
    ['--cve', 'none', 'A CVE must be written as CVE-2026-12345'],
    ['--link', 'ftp://x', 'The link must be an http or https URL'],
    ['--title', '', 'Give a title'],
    ['--severity', 'mild', 'Allowed choices are low, medium, high, critical'],
  ])('refuses %s %s', async (option, value, message) => {
    const words = ['--title', 'x', '--affected', '*', option, value]
    expect(await svc.fail('advisory', 'add', path, 'acme/lib', ...words)).toContain(message)
  })
})
