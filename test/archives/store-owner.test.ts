import { existsSync } from 'node:fs'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { openLocalStore } from '../../src/archives/local-store.ts'
import { openOwnStore, openStoreOfServer } from '../../src/archives/store-owner.ts'
import { noteServerUrls } from '../../src/database/installation.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { installationId } from '../support/archive-rows.ts'
import { databaseUrl, runSvc } from '../support/program.ts'
import { dropRows } from '../support/rows.ts'

const t = useApp()
const { dataDir } = t.config
const idPath = join(dataDir, 'archives', 'database-id')
const databaseId = () => installationId(t.db)
const stranger = '7d3c1a9e-0000-4000-8000-000000000000'
const folders: string[] = []

beforeEach(async () => {
  await rm(join(dataDir, 'archives'), { recursive: true, force: true })
  await openLocalStore(dataDir)
})
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))))

async function anEmptyFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-owner-'))
  folders.push(folder)
  return folder
}

describe('an archive volume', () => {
  it('gets the id of its database while it is empty, from one of many processes', async () => {
    await Promise.all(Array.from({ length: 8 }, () => openOwnStore(t.db, t.config)))
    expect(await readFile(idPath, 'utf8')).toBe(`${await databaseId()}\n`)
    expect(await readdir(join(dataDir, 'tmp'))).toEqual([])
  })

  it('is adopted when the database knows an archive on it', async () => {
    const { push } = await aCaller(t)
    await push('1.0.0')
    const newest = (await push('2.0.0', { manifest: { description: 'newest' } })).json() as { sha256: string }
    await rm(join(dataDir, 'archives', newest.sha256.slice(0, 2), `${newest.sha256}.zip`))
    await openOwnStore(t.db, t.config)
    expect(existsSync(idPath)).toBe(true)
  })

  it('without an id is refused by commands that add archives, once a server has started', async () => {
    await openStoreOfServer(t.db, { ...t.config, dataDir: await anEmptyFolder() })
    await noteServerUrls(t.db, { baseUrl: t.config.baseUrl, authUrl: t.config.authUrl })
    const elsewhere = await anEmptyFolder()
    await expect(openStoreOfServer(t.db, { ...t.config, dataDir: elsewhere })).rejects.toThrow(
      `The server does not store its archives in ${elsewhere}. Run the command with the server's DATA_DIR and ARCHIVE_STORE.`,
    )
    expect(existsSync(join(elsewhere, 'archives', 'database-id'))).toBe(false)
    await openOwnStore(t.db, t.config)
    await openStoreOfServer(t.db, t.config)
  })

  it('of another database is refused with both ids', async () => {
    await writeFile(idPath, `${stranger}\n`)
    const id = await databaseId()
    await expect(openOwnStore(t.db, t.config)).rejects.toThrow(
      `The archives in ${dataDir} belong to the database with the id ${stranger}, but this database has the id ${id}.`,
    )
    expect(await readFile(idPath, 'utf8')).toBe(`${stranger}\n`)
  })

  it('with archives that the database does not know is refused', async () => {
    const { push } = await aCaller(t)
    await push('1.0.0')
    await dropRows(t.db, 'package_version')
    await dropRows(t.db, 'archive')
    const id = await databaseId()
    await expect(openOwnStore(t.db, t.config)).rejects.toThrow(
      `${dataDir} contains archives, but this database (id ${id}) knows none of them.`,
    )
    expect(existsSync(idPath)).toBe(false)
  })
})

describe('svc serve, collect-garbage and verify-archives', () => {
  it('refuse the volume of another database, and change nothing', async () => {
    await writeFile(idPath, `${stranger}\n`)
    const environment = { DATABASE_URL: databaseUrl(t.connection), DATA_DIR: dataDir }
    for (const words of [['serve'], ['collect-garbage', '--force'], ['verify-archives']]) {
      const { code, stderr } = await runSvc(words, environment)
      expect([words, code]).toEqual([words, 1])
      expect(stderr).toContain(stranger)
      expect(stderr).toContain(await databaseId())
    }
  })

  it('refuse a store with archives when the embedded database was just created', async () => {
    const folder = await anEmptyFolder()
    const { push } = await aCaller(t)
    const { sha256 } = (await push('1.0.0')).json() as { sha256: string }
    await openLocalStore(folder)
    const from = join(dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`)
    const path = join(folder, 'archives', sha256.slice(0, 2), `${sha256}.zip`)
    await cp(from, path)
    const collect = () => runSvc(['collect-garbage', '--force'], { DATA_DIR: folder })
    const without = await collect()
    expect([without.code, existsSync(path)]).toEqual([1, true])
    expect(without.stderr).toContain('There is no database')
    expect(await runSvc(['migrate'], { DATA_DIR: folder })).toMatchObject({ code: 0 })
    const { code, stderr } = await collect()
    expect([code, existsSync(path)]).toEqual([1, true])
    expect(stderr).toContain('knows none of them')
  })
})
