import { describe, expect, it, onTestFinished } from 'vitest'
import { openDatabase } from '../../src/database/database.ts'
import { listDocumentPieces } from '../../src/documents/stored-documents.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import type { RegistryRequest } from '../../src/groups/access.ts'
import { listAnyDocuments } from '../../src/packages/documents/find-documents.ts'
import { packDocument } from '../../src/upstreams/documents/packed-content.ts'
import { readDocument } from '../../src/upstreams/documents/read-document.ts'
import { storeDocuments } from '../../src/upstreams/store-documents.ts'
import {
  findMirroredArchives,
  listMirroredDownloads,
  noteArchiveUses,
  saveFetchedArchives,
  takeFetchTurns,
} from '../../src/upstreams/tables/mirrored-archives.ts'
import { listFoundMirrors } from '../../src/upstreams/tables/mirrored-documents.ts'
import { takeCheckTurns } from '../../src/upstreams/tables/upstream-documents.ts'
import { listUpstreamsById } from '../../src/upstreams/tables/upstreams.ts'
import { aMember, anAccount, aPersonalToken, aRepository } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'
import { manyMirroredPackages } from '../support/mirrored-rows.ts'
import { readRowsByTable } from '../support/statistics.ts'
import { anUpstream } from '../support/upstream-rows.ts'

const baseUrl = 'http://svc.test'

describe('PostgreSQL plans a statement before the tables have rows', () => {
  const t = useDatabase()

  /** Returns a connection that keeps its plans, and a function that lists the tables it has read from end to end. */
  async function aConnection() {
    const db = openDatabase({ ...t.connection, max: 1, plansOnce: true }, () => {})
    onTestFinished(() => db.end())
    const readRows = () => readRowsByTable(db)
    return { db, readRows }
  }

  it('and reads few rows with the same plan when they have many', async () => {
    const repository = await aRepository(t.db, { visibility: 'private' })
    const account = await anAccount(t.db)
    await aMember(t.db, account, repository, 'developer')
    const token = await aPersonalToken(t.db, account)
    const upstreamId = await anUpstream(t.db, repository)
    const [group = '', name = ''] = repository.path.split('/')
    const target: RegistryRequest = {
      group,
      name,
      token: { kind: 'personal', hash: hashSecret(token) },
      principalOf: (token, accountId) => ({ ...operator, via: 'api', token, accountId }),
      key: 'one',
    }
    const { db, readRows } = await aConnection()

    /** Fetches and reads one package, as a first and a second `composer update` do. */
    async function mirror(packageName: string) {
      const [upstream] = await listUpstreamsById(db, [upstreamId])
      if (!upstream) throw new Error('there is no upstream')
      await takeCheckTurns(db, [{ upstreamId, packageName, isDev: false }], 60)
      const entries = ['2.0.0', '1.0.0'].map((version) => ({
        name: packageName,
        version,
        dist: { type: 'zip', url: `https://packages.example.com/${version}.zip`, reference: 'a1b2c3' },
      }))
      const checked = readDocument({ packages: { [packageName]: entries } }, packageName)
      if (!checked) throw new Error('the document has no package')
      const packed = packDocument(checked)
      const document = { ...packed, upstream, packageName, isDev: false, lastModified: null }
      expect(await storeDocuments(db, baseUrl, [document])).toMatchObject([{ verdict: 'upstream' }])
      const terms = { baseUrl, freshSeconds: 60 }
      const wanted = { repositoryId: repository.id, packageName, isDev: false }
      const [found] = await listFoundMirrors(db, [wanted], terms)
      expect(await listAnyDocuments(db, [{ target, packageName, isDev: false }], terms)).toMatchObject([
        { mirror: { verdict: 'upstream', document: found?.document } },
      ])
      const piece = { ownerId: found?.packageId ?? '', isDev: false, encoding: 'gzip', start: 0 } as const
      expect(await listDocumentPieces(db, 'mirror', [piece])).not.toEqual([null])
      const { versionPath = '', reference = '', type = '' } = checked.content.versions[0]?.dist ?? {}
      const archive = { packageName, version: versionPath, reference, type }
      const [download] = await listMirroredDownloads(db, [{ target, ...archive }])
      const id = download?.mirrored?.id ?? ''
      expect(await takeFetchTurns(db, [id])).toEqual([true])
      const digest = { sha256: hashSecret(packageName).toString('hex'), sha1: 'a'.repeat(40), size: 1 }
      expect(await saveFetchedArchives(db, [{ ...digest, id, isDownload: false }])).toEqual([true])
      await noteArchiveUses(db, [id])
      expect(await findMirroredArchives(db, [{ ...archive, repositoryId: repository.id }])).toMatchObject([
        { isStored: true, isUsedToday: true },
      ])
    }

    await mirror('acme/first')
    await manyMirroredPackages(t.db, repository, upstreamId, 5000)
    const before = await readRows()
    await mirror('acme/second')
    const after = await readRows()
    const scanned = [...after].filter(([table, count]) => count - (before.get(table) ?? 0) >= 5000)
    expect(scanned.map(([table]) => table)).toEqual([])
  })
})
