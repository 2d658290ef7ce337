import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { hashSecret, kindOfSecret } from '../../src/domain/secrets.ts'
import { anAccount } from '../support/actors.ts'
import {
  listStoredApplications,
  refuseApplications,
  workingSecretHashes,
} from '../support/application-rows.ts'
import { useCommands } from '../support/commands.ts'
import { useDatabase } from '../support/database.ts'
import { eventsOf } from '../support/event-rows.ts'
import { runSvcWithin4KiB } from '../support/program.ts'
import { runCommand } from '../support/run-command.ts'
import { useUnwritableFolder } from '../support/unwritable-folder.ts'

const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')

describe('svc application', () => {
  const svc = useCommands()
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-logo-'))
    await writeFile(join(folder, 'logo.png'), png)
    await writeFile(join(folder, 'large.png'), Buffer.concat([png, Buffer.alloc(1_048_577 - png.length)]))
    await writeFile(join(folder, 'text.png'), 'no image')
  })
  afterAll(() => rm(folder, { recursive: true }))

  const registration = (about: Record<string, string> = {}) =>
    Object.entries({
      '--name': 'Build Bot',
      '--website': 'https://bot.example.com',
      '--redirect-uri': 'https://bot.example.com/callback',
      '--logo': join(folder, 'logo.png'),
      '--scope': 'account-profile:r',
      '--resource-scope': 'all',
      ...about,
    }).flat()
  const register = (...words: string[]) => svc.json('application', 'new', ...words)
  const stored = async (id = '') =>
    (await listStoredApplications(svc.db)).find(({ clientId }) => clientId === id) ?? null
  const workingSecrets = (clientId = '') => workingSecretHashes(svc.db, clientId)

  it('new leaves no part of a migration behind when the disk is full', async () => {
    const logo = join(folder, 'logo-8-kib.png')
    await writeFile(logo, Buffer.concat([png, Buffer.alloc(8192)]))
    const words = ['application', 'new', ...registration({ '--logo': logo })]
    const migrations = svc.environment['MIGRATIONS_DIR'] ?? ''
    const before = await readdir(migrations)
    const { code, stderr } = await runSvcWithin4KiB(words, svc.environment)
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^svc: The migration .*_build_bot\.sql cannot be written \(EFBIG\): .*\n$/),
    ])
    expect(await readdir(migrations)).toEqual(before)
  })

  it('new writes a migration that the next svc migrate applies, with the hash of the secret only', async () => {
    const made = await register(...registration())
    expect(made).toEqual({
      client_id: expect.stringMatching(/^[a-z0-9]{20}$/),
      client_secret: expect.any(String),
      migration: expect.stringMatching(/\/\d{4}_application_build_bot\.sql$/),
    })
    const secret = made['client_secret'] ?? ''
    expect(kindOfSecret(secret)).toBe('client')
    expect(await readFile(made['migration'] ?? '', 'utf8')).not.toContain(secret.slice(5, 20))
    expect(await stored(made['client_id'])).toBeNull()
    const { applied } = await svc.json<{ applied: string[] }>('migrate')
    expect(made['migration']).toContain(applied[0])
    expect(await stored(made['client_id'])).toMatchObject({
      status: 'approved',
      logo: png,
      description: null,
    })
    expect(await workingSecrets(made['client_id'])).toEqual([hashSecret(secret)])
  })

  it('new --apply stores every field as it was given', async () => {
    const about = {
      '--name': `Bob's \\ "Bot" 机器人 -- $1`,
      '--description': `It's\ntwo lines; '' \\'`,
      '--scope': 'registry-package:rw,repo-code:r',
      '--resource-scope': 'specified',
    }
    const words = [...registration(about), '--exact-redirect', '--resource-server', '--pending', '--apply']
    const { client_id } = await register(...words)
    expect(await stored(client_id)).toMatchObject({
      name: about['--name'],
      description: about['--description'],
      website: 'https://bot.example.com',
      redirectUri: 'https://bot.example.com/callback',
      isExactRedirect: true,
      logo: png,
      scopes: ['registry-package:rw', 'repo-code:r'],
      resourceScope: 'specified',
      status: 'pending',
      isResourceServer: true,
    })
  })

  it('new --public makes an application without a secret, and set changes it (OPENID 201)', async () => {
    const words = registration({ '--redirect-uri': 'com.example.bot:/callback' })
    expect(await svc.fail('application', 'new', ...words)).toContain('must be an absolute http or https URL')
    expect(await svc.fail('application', 'new', ...words, '--public', '--resource-server')).toContain(
      'a public client cannot be a resource server',
    )
    const made = await register(...words, '--public', '--device', '--apply')
    expect(made['client_secret']).toBeNull()
    const id = made['client_id'] ?? ''
    expect(await stored(id)).toMatchObject({
      isPublic: true,
      isDevice: true,
      redirectUri: 'com.example.bot:/callback',
    })
    expect(await workingSecrets(id)).toEqual([])
    expect(await readFile(made['migration'] ?? '', 'utf8')).not.toContain('application_secret')
    expect(await svc.fail('application', 'rotate-secret', id)).toContain('is a public client')
    expect(await svc.fail('application', 'set', id, '--no-public')).toContain('http or https URL')
    const uri = ['--redirect-uri', 'http://127.0.0.1/callback']
    expect(await svc.json('application', 'set', id, '--no-public', ...uri)).toMatchObject({ public: false })
    const { client_secret } = await svc.json('application', 'rotate-secret', id)
    expect(await workingSecrets(id)).toEqual([hashSecret(client_secret ?? '')])
    expect(await svc.json('application', 'set', id, '--public')).toMatchObject({ public: true })
    expect(await svc.json('application', 'set', id, '--no-device')).toMatchObject({ device: false })
  })

  it('new accepts values up to the limits of SPEC 2.1', async () => {
    const about = {
      '--name': '名'.repeat(50),
      '--description': 'd'.repeat(350),
      '--website': `https://bot.example.com/${'w'.repeat(104)}`,
    }
    const { client_id, migration } = await register(...registration(about), '--apply')
    expect(migration).toContain(`_application_${client_id}.sql`)
    expect(await stored(client_id)).toMatchObject({ name: about['--name'] })
  })

  it.each([
    [{ '--name': '名'.repeat(51) }, 'the name has 51 characters, more than 50'],
    [{ '--name': ' ' }, 'the name is empty'],
    [{ '--name': 'a\nb' }, 'the name has control characters'],
    [{ '--description': 'd'.repeat(351) }, 'the description has 351 characters, more than 350'],
    [
      { '--website': `https://bot.example.com/${'w'.repeat(105)}` },
      'the website has 129 characters, more than 128',
    ],
    [{ '--website': 'bot.example.com' }, 'the website is not an http or https URL'],
    [
      { '--website': 'https://bot.example.com@evil.example' },
      'the website has a username or password before its host',
    ],
    [{ '--name': 'Bot\u202e' }, 'the name has control characters'],
    [{ '--description': 'A bot\u2028' }, 'the description has control characters'],
    [{ '--redirect-uri': '/callback' }, 'the Redirect URL must be an absolute'],
    [{ '--redirect-uri': 'https://bot.example.com/#top' }, 'the Redirect URL must not have a fragment'],
    [{ '--redirect-uri': 'https://user@bot.example.com/' }, 'the Redirect URL must be'],
    [{ '--scope': '' }, 'It is empty: --help lists the scopes.'],
    [{ '--scope': ',' }, 'It is empty: --help lists the scopes.'],
    [{ '--scope': 'repo-code' }, 'Write repo-code:r or repo-code:rw.'],
    [{ '--resource-scope': 'some' }, 'Allowed choices are all, public, specified.'],
  ])('new refuses %j', async (about, message) => {
    expect(await svc.fail('application', 'new', ...registration(about))).toContain(message)
  })

  it.each([
    ['large.png', 'the logo has more than 1048576 bytes (1 MB)'],
    ['text.png', 'the logo is not a PNG, JPEG, GIF or WebP image'],
    ['none.png', 'cannot be read (ENOENT)'],
    ['../../dev/zero', 'the logo has more than 1048576 bytes (1 MB)'],
  ])('new refuses the logo %s', async (name, message) => {
    const words = registration({ '--logo': join(folder, name) })
    expect(await svc.fail('application', 'new', ...words)).toContain(message)
  })

  it('new refuses a developer that does not exist, and writes no file', async () => {
    const migrations = svc.environment['MIGRATIONS_DIR'] ?? ''
    const before = await readdir(migrations)
    const words = ['application', 'new', ...registration({ '--developer': 'nobody' })]
    expect(await svc.fail(...words)).toBe('svc: There is no account "nobody".')
    expect(await readdir(migrations)).toEqual(before)
  })

  it('new names every mistake at once, and leaves no file behind', async () => {
    const before = await readdir(String(svc.environment['MIGRATIONS_DIR']))
    const words = registration({ '--name': '', '--website': 'x', '--redirect-uri': 'y' })
    expect(await svc.fail('application', 'new', ...words)).toMatch(/name.*website.*Redirect URL/)
    expect(await readdir(String(svc.environment['MIGRATIONS_DIR']))).toEqual(before)
  })

  it('list, approve and suspend', async () => {
    const { client_id } = await register(...registration({ '--name': 'Listed' }), '--pending', '--apply')
    const { items } = await svc.json<{ items: { client_id: string }[] }>('application', 'list')
    expect(items.find((item) => item.client_id === client_id)).toMatchObject({
      name: 'Listed',
      status: 'pending',
      scopes: ['account-profile:r'],
    })
    const id = client_id ?? ''
    const migration = (verb: string) => expect.stringMatching(new RegExp(`/1\\d{3}_${verb}_listed\\.sql$`))
    expect(await svc.json('application', 'approve', id)).toEqual({
      client_id,
      status: 'approved',
      migration: migration('approve'),
    })
    expect(await stored(id)).toMatchObject({ status: 'approved' })
    expect(await svc.json('application', 'suspend', id, '--force')).toEqual({
      client_id,
      status: 'suspended',
      migration: migration('suspend'),
    })
    expect(await svc.json('application', 'approve', id, '--no-migration')).toEqual({
      client_id,
      status: 'approved',
      migration: null,
    })
    expect(await svc.json('migrate')).toEqual({ applied: [], missing: [] })
    expect(await stored(id)).toMatchObject({ status: 'approved' })
    expect(await svc.fail('application', 'approve', 'nobody')).toContain('"nobody"')
  })

  it('show, set and delete, in this database and in one that is rebuilt', async () => {
    const words = registration({ '--name': 'Changing', '--description': 'old' })
    const { client_id: id = '' } = await register(...words, '--apply')
    const changes = [
      ...['--name', `Ch'd`, '--description', '', '--redirect-uri', 'https://b.example.com/back'],
      ...['--scope', 'repo-code:r', '--resource-scope', 'public', '--exact-redirect', '--resource-server'],
      ...['--logo', join(folder, 'logo.png'), '--id-token-alg', 'ES256'],
      ...['--post-logout-redirect-uri', 'https://b.example.com/bye'],
      ...['--backchannel-logout-uri', 'https://b.example.com/logout'],
    ]
    const after = {
      client_id: id,
      name: `Ch'd`,
      description: null,
      status: 'approved',
      status_reason: null,
      website: 'https://bot.example.com',
      redirect_uri: 'https://b.example.com/back',
      scopes: ['repo-code:r'],
      resource_scope: 'public',
      exact_redirect: true,
      redirect_uris: null,
      unreviewed: false,
      public: false,
      device: false,
      id_token_alg: 'ES256',
      post_logout_redirect_uri: 'https://b.example.com/bye',
      backchannel_logout_uri: 'https://b.example.com/logout',
      resource_server: true,
      created_at: expect.any(String),
      developer: null,
      reviewed_by: null,
      reviewed_at: expect.any(String),
    }
    expect(await svc.json('application', 'set', id, ...changes)).toEqual({
      ...after,
      migration: expect.stringMatching(/\/1\d{3}_set_changing\.sql$/),
    })
    expect(await svc.json('application', 'show', id)).toEqual({ ...after, accounts: 0, last_used_at: null })
    const wrong = ['--website', 'x', '--logo', join(folder, 'text.png')]
    expect(await svc.fail('application', 'set', id, ...wrong)).toMatch(/website is not .*; the logo is not/)
    const bad = ['--post-logout-redirect-uri', 'https://b.example.com/#x', '--backchannel-logout-uri', 'x']
    expect(await svc.fail('application', 'set', id, ...bad)).toMatch(
      /URL after a sign-out must not have a fragment.*; the URL for logout tokens must be an absolute/,
    )
    expect(await svc.fail('application', 'set', id)).toContain('Nothing to change')
    expect(await svc.fail('application', 'set', id, '--developer', 'nobody')).toContain(
      'There is no account nobody for the developer.',
    )
    const { username } = await anAccount(svc.db)
    expect(await svc.json('application', 'set', id, '--developer', username)).toMatchObject({
      developer: username,
    })
    expect(await svc.json('application', 'delete', id, '--force')).toEqual({
      client_id: id,
      migration: expect.stringMatching(/_delete_ch_d\.sql$/),
    })
    expect(await svc.fail('application', 'show', id)).toContain(`client_id "${id}"`)
    expect(
      await eventsOf(svc.db, { action: 'application-deleted', details: { client_id: id } }, [
        'via',
        'details',
      ]),
    ).toEqual([{ via: 'command', details: { name: expect.any(String), client_id: id } }])
    expect(await svc.json('migrate')).toEqual({ applied: [], missing: [] })
  })

  it('rotate-secret lets both secrets work as long as the operator says', async () => {
    const { client_id, client_secret } = await register(...registration(), '--apply')
    const id = client_id ?? ''
    const second = await svc.json('application', 'rotate-secret', id)
    expect(second).toMatchObject({ client_id, overlap_seconds: 86_400 })
    const hashes = [client_secret, second['client_secret']].map((secret) => hashSecret(secret ?? ''))
    expect(await workingSecrets(id)).toEqual(hashes)
    const third = await svc.json('application', 'rotate-secret', id, '--overlap-seconds', '0')
    expect(await workingSecrets(id)).toEqual([hashSecret(third['client_secret'] ?? '')])
  })

  it('decline needs a reason and keeps it, and the migration has both', async () => {
    const made = await register(...registration(), '--pending', '--apply')
    const clientId = made['client_id'] ?? ''
    const refused = await svc.run('application', 'decline', clientId)
    expect(refused.code).toBe(1)
    const declined = await svc.json<{ migration: string }>(
      'application',
      'decline',
      clientId,
      '--reason',
      "It's unclear who runs it",
    )
    expect(await stored(clientId)).toMatchObject({
      status: 'declined',
      statusReason: "It's unclear who runs it",
    })
    expect(await readFile(declined.migration, 'utf8')).toContain(
      "status_reason = 'It''s unclear who runs it'",
    )
  })
})

describe('a database that is rebuilt from the migrations', () => {
  const svc = useCommands()
  const rebuilt = useDatabase()
  const unwritable = useUnwritableFolder()

  it('has the applications in their latest state', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-test-logo-'))
    await writeFile(join(folder, 'logo.png'), png)
    const words = ['--name', 'Kept', '--website', 'https://x', '--redirect-uri', 'https://x/']
    const more = ['--logo', join(folder, 'logo.png'), '--scope', 'repo-code:r', '--resource-scope', 'all']
    const { client_id = '' } = await svc.json('application', 'new', ...words, ...more, '--apply')
    await svc.json('application', 'suspend', client_id, '--force')
    await migrate(rebuilt.db, String(svc.environment['MIGRATIONS_DIR']))
    expect(await listStoredApplications(rebuilt.db)).toMatchObject([
      { clientId: client_id, status: 'suspended' },
    ])
    await rm(folder, { recursive: true })
  })

  it('is not left behind when the migration cannot be written', async () => {
    const { items } = await svc.json<{ items: { client_id: string }[] }>('application', 'list')
    const [id = ''] = items.map(({ client_id }) => client_id)
    const environment = { ...svc.environment, MIGRATIONS_DIR: unwritable }
    const { stderr } = await runCommand(['application', 'approve', id], environment)
    expect(stderr).toMatch(/cannot be written .*--no-migration/)
    expect(await listStoredApplications(svc.db)).toMatchObject([{ status: 'suspended' }])
  })
})

describe('svc application new on a database that refuses', () => {
  const svc = useCommands()

  it('--apply removes its file again, so that the next start does not fail on it', async () => {
    await refuseApplications(svc.db)
    const folder = await mkdtemp(join(tmpdir(), 'svc-test-logo-'))
    await writeFile(join(folder, 'logo.png'), png)
    const words = [
      '--name',
      'x',
      '--website',
      'https://x',
      '--redirect-uri',
      'https://x/',
      '--scope',
      'repo-code:r',
    ]
    const more = ['--logo', join(folder, 'logo.png'), '--resource-scope', 'all', '--apply']
    expect(await svc.fail('application', 'new', ...words, ...more)).toContain('failed')
    expect(await readdir(String(svc.environment['MIGRATIONS_DIR']))).toEqual([])
    await rm(folder, { recursive: true })
  })
})
