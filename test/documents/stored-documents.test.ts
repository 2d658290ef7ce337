import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { encodeDocument } from '../../src/documents/encodings.ts'
import {
  type DocumentCache,
  type DocumentKind,
  type DocumentPiece,
  listDocumentPieces,
  openDocumentCache,
  type Rendering,
  type StoredDocument,
  saveDocuments,
  validatorsOf,
} from '../../src/documents/stored-documents.ts'
import { useApp } from '../support/app.ts'
import { aDocumentOwner, moveRevisionsBack, renderFilter } from '../support/stored-documents.ts'

type SavedKind = Exclude<DocumentKind, 'filter'>
const kinds: SavedKind[] = ['root', 'package', 'mirror']

describe.each(kinds)('a stored document of the kind %s', (kind) => {
  const t = useApp()

  /** Returns a function that stores a text as the document of a new owner. */
  async function aDocument() {
    const ownerId = await aDocumentOwner(t.db, kind)
    return async (text: string | Buffer, about: Partial<Rendering> = {}) => {
      const encoded = await encodeDocument(Buffer.from(text))
      const key = { ownerId, isDev: false, baseUrl: 'http://svc.test', revision: null }
      const [saved] = await saveDocuments(t.db, kind, [{ ...key, ...encoded, ...about }])
      return saved ?? null
    }
  }

  const textOf = async (cache: DocumentCache, document: StoredDocument | null) =>
    document && (await cache.read(document, 'identity'))?.bytes.toString()

  it('is not replaced by an older rendering', async () => {
    const save = await aDocument()
    const older = await save('{"state":"older"}')
    const newer = await save('{"state":"newer"}')
    for (const revision of [older?.revision, newer?.revision] as string[]) {
      expect(await save('{"state":"late"}', { revision })).toBeNull()
    }
    const stored = { ...newer, encoded: undefined } as unknown as StoredDocument
    expect(await textOf(openDocumentCache(t.db), stored)).toBe('{"state":"newer"}')
  })

  it('gets a higher revision also after the sequence went back', async () => {
    const save = await aDocument()
    const before = await save('{"state":"before"}')
    await moveRevisionsBack(t.db)
    const after = await save('{"state":"after"}')
    expect(Number(after?.revision)).toBeGreaterThan(Number(before?.revision))
  })

  it('keeps entity tag and Last-Modified if its bytes are the same, and else changes both', async () => {
    const save = await aDocument()
    const validators = async (text: string) => {
      const { etag, lastModified } = validatorsOf((await save(text)) as StoredDocument)
      return { etag, lastModified }
    }
    const before = await validators('{"state":"one"}')
    expect(await validators('{"state":"one"}')).toEqual(before)
    const after = await validators('{"state":"two"}')
    expect(after.etag).not.toBe(before.etag)
    expect(Date.parse(after.lastModified)).toBeGreaterThan(Date.parse(before.lastModified))
  })

  it('is read in parts when it is large, in each content coding', async () => {
    const save = await aDocument()
    const text = JSON.stringify({ noise: randomBytes(900_000).toString('base64') })
    const { encoded, ...document } = (await save(text)) as StoredDocument
    const cache = openDocumentCache(t.db)
    for (const encoding of ['identity', 'gzip', 'br'] as const) {
      const read = await cache.read(document, encoding)
      expect(read?.bytes.equals(encoded?.[encoding] as Buffer)).toBe(true)
    }
  })

  it('has the bytes of the state that they are sent with, if it changes after it was found', async () => {
    const save = await aDocument()
    const { encoded: _, ...found } = (await save('{"state":"found"}')) as StoredDocument
    const changed = (await save('{"state":"changed"}')) as StoredDocument
    const read = await openDocumentCache(t.db).read(found, 'identity')
    expect(read).toMatchObject({ ...validatorsOf(changed), bytes: Buffer.from('{"state":"changed"}') })
  })
})

describe('filter.json, which SQL renders', () => {
  const t = useApp()

  it('grows its revision, and keeps entity tag and Last-Modified, when it is rendered again unchanged', async () => {
    const ownerId = await aDocumentOwner(t.db, 'filter')
    const rendered = async () => {
      await renderFilter(t.db, ownerId)
      const piece = { ownerId, isDev: false, encoding: 'identity', start: 0 } as const
      return (await listDocumentPieces(t.db, 'filter', [piece]))[0] as DocumentPiece
    }
    const [first, second] = [await rendered(), await rendered()]
    expect(Number(second.revision)).toBeGreaterThan(Number(first.revision))
    const [before, after] = [validatorsOf(first), validatorsOf(second)]
    expect([after.etag, after.lastModified]).toEqual([before.etag, before.lastModified])
  })
})
