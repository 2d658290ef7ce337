import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { useCommands } from '../support/commands.ts'
import { program } from '../support/program.ts'
import { hasStrace, syncedBy } from '../support/synced.ts'

describe.skipIf(!hasStrace)('what svc has confirmed survives a power cut (needs strace)', () => {
  const commands = useCommands()
  let folder: string
  beforeAll(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'svc-test-synced-')))
  })
  afterAll(() => rm(folder, { recursive: true }))

  it('an archive: its file, the folder of its name, and the folder of that folder', async () => {
    const module = new URL('../../src/archives/local-store.ts', import.meta.url)
    const script = `
      import { Readable } from 'node:stream'
      const { openLocalStore, receiveArchive } = await import('${module}')
      const store = await openLocalStore('${folder}/store')
      await store.keep(await receiveArchive(store, Readable.from([Buffer.from('an archive')]), { maxBytes: 100 }))
      await store.writeOwner('the database')`
    const synced = await syncedBy(['--import', 'tsx', '--input-type=module', '--eval', script])
    expect(synced.map((path) => relative(folder, path))).toEqual([
      'store',
      expect.stringMatching(/^store\/tmp\//),
      'store/archives/9e',
      'store/archives',
      expect.stringMatching(/^store\/tmp\//),
    ])
  })

  it('a backup: its file and the folder', async () => {
    const environment = { ...commands.environment, DATA_DIR: folder }
    const synced = await syncedBy([program, 'backup', join(folder, 'svc.backup')], environment)
    const names = synced.map((path) => relative(folder, path))
    const file = names.findIndex((name) => /^svc\.backup\..*\.partial$/.test(name))
    expect(file).toBeGreaterThan(-1)
    expect(names[file + 1]).toBe('')
  })

  it('the migration of a new application: its file and the folder', async () => {
    const environment = { ...commands.environment, MIGRATIONS_DIR: folder }
    const words = ['--name', 'Robot', '--website', 'https://robot.example', '--logo', 'views/demo-logo.png']
    const rules = [
      '--redirect-uri',
      'https://robot.example/',
      '--scope',
      'account-profile:r',
      '--resource-scope',
      'all',
    ]
    const synced = await syncedBy([program, 'application', 'new', ...words, ...rules], environment)
    expect(synced.map((path) => relative(folder, path))).toEqual([
      expect.stringMatching(/_application_robot\.sql\..*\.partial$/),
      '',
    ])
  })

  it('the key of the second factors: its file and the folder', async () => {
    const module = new URL('../../src/database/secret-key.ts', import.meta.url)
    const script = `
      const { readSecretKeys } = await import('${module}')
      await readSecretKeys({ dataDir: '${folder}/keys', secretKey: null, previousSecretKey: null })`
    const synced = await syncedBy(['--import', 'tsx', '--input-type=module', '--eval', script])
    expect(synced.map((path) => relative(folder, path))).toEqual([
      expect.stringMatching(/^keys\/.*\.partial$/),
      'keys',
    ])
  })
})
