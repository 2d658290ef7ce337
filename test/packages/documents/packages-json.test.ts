import { describe, expect, it } from 'vitest'
import { encodeDocument } from '../../../src/documents/encodings.ts'
import { noteListingChange } from '../../../src/documents/listing.ts'
import { saveDocuments } from '../../../src/documents/stored-documents.ts'
import { useApp } from '../../support/app.ts'
import { addPackages, rootDocument, setRootDocument } from '../../support/package-rows.ts'
import { aPublisher, type Publisher } from '../../support/registry-actors.ts'

const t = useApp()

async function readRoot({ ask }: Publisher, headers: Record<string, string> = {}) {
  const response = await ask('packages.json', { headers })
  const lastModified = String(response.headers['last-modified'])
  const body = response.statusCode === 200 ? response.json() : {}
  return {
    status: response.statusCode,
    lastModified,
    names: body['available-packages'] as string[],
    patterns: body['available-package-patterns'] as string[],
  }
}

async function addNames({ repository }: Publisher, names: string[]): Promise<void> {
  await addPackages(t.db, repository, names)
  await noteListingChange(t.db, repository.id)
}

describe('packages.json while names are published', () => {
  it('contains each name as soon as its upload gets a response, with twenty uploads at once', async () => {
    const publisher = await aPublisher(t)
    const names = Array.from({ length: 20 }, (_, i) => `acme/lib${String.fromCharCode(97 + i)}`)
    await Promise.all(
      names.map(async (name) => {
        expect((await publisher.push('1.0.0', { name })).statusCode).toBe(201)
        expect((await readRoot(publisher)).names).toContain(name)
      }),
    )
    expect((await readRoot(publisher)).names).toEqual(names)
  })

  it('never has other contents under the same Last-Modified', async () => {
    const publisher = await aPublisher(t)
    const seen = new Map<string, string>()
    await publisher.push('1.0.0', { name: 'acme/first' })
    await Promise.all(
      Array.from({ length: 15 }, async (_, i) => {
        await publisher.push('1.0.0', { name: `acme/lib${i}` })
        for (let read = 0; read < 3; read += 1) {
          const { names, lastModified } = await readRoot(publisher)
          const text = names.join()
          expect(seen.get(lastModified) ?? text).toBe(text)
          seen.set(lastModified, text)
        }
      }),
    )
    const { lastModified, names } = await readRoot(publisher)
    expect(names).toHaveLength(16)
    expect((await readRoot(publisher, { 'if-modified-since': lastModified })).status).toBe(304)
    await publisher.push('1.0.0', { name: 'acme/new' })
    const changed = await readRoot(publisher, { 'if-modified-since': lastModified })
    expect([changed.status, changed.names.length]).toEqual([200, 17])
    expect(Date.parse(changed.lastModified)).toBeGreaterThan(Date.parse(lastModified))
  })

  it('does not change with another version of a known name, nor when the same text is rendered again', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    const { lastModified } = await readRoot(publisher)
    await publisher.push('1.1.0', { manifest: { extra: { build: 1 } } })
    await noteListingChange(t.db, publisher.repository.id)
    expect((await readRoot(publisher, { 'if-modified-since': lastModified })).status).toBe(304)
  })

  it('is not replaced by a rendering that began earlier', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0', { name: 'acme/a' })
    const before = await readRoot(publisher)
    const repositoryId = publisher.repository.id
    const earlier = await rootDocument(t.db, publisher.repository)
    await publisher.push('1.0.0', { name: 'acme/b' })
    const after = await readRoot(publisher)
    expect([before.names, after.names]).toEqual([['acme/a'], ['acme/a', 'acme/b']])
    const encoded = await encodeDocument(earlier?.plain as Buffer)
    const key = { ownerId: repositoryId, isDev: false, baseUrl: 'http://svc.test' }
    const late = { ...key, revision: earlier?.revision as string, ...encoded }
    expect(await saveDocuments(t.db, 'root', [late])).toEqual([null])
    // A request would render the document again, and hide an earlier one behind a new Last-Modified.
    expect(await readRoot(publisher)).toEqual(after)
  })

  it('serves what a running earlier release has rendered', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0', { name: 'acme/a' })
    await readRoot(publisher)
    await setRootDocument(t.db, publisher.repository, { 'available-packages': ['old/release'] })
    expect((await readRoot(publisher)).names).toEqual(['old/release'])
    await publisher.push('1.0.0', { name: 'acme/b' })
    expect((await readRoot(publisher)).names).toEqual(['acme/a', 'acme/b'])
  })

  it('lists all vendors when there are more than 10,000 packages', async () => {
    const publisher = await aPublisher(t)
    const vendors = ['acme', 'acme-x', 'acme.y', 'acme0', 'acme_z', 'a', 'zz', '0', 'b-c.d', 'b']
    const many = Array.from({ length: 10_000 }, (_, i) => `acme/lib${i}`)
    await addNames(publisher, many)
    const exact = await readRoot(publisher)
    expect([exact.names.length, exact.patterns]).toEqual([10_000, undefined])
    await addNames(publisher, [...vendors.map((vendor) => `${vendor}/other`), 'zz/more'])
    const { names, patterns } = await readRoot(publisher)
    expect(names).toBeUndefined()
    expect(patterns.toSorted()).toEqual(vendors.map((vendor) => `${vendor}/*`).toSorted())
    expect((await publisher.push('1.0.0', { name: 'new-vendor/lib' })).statusCode).toBe(201)
    expect((await readRoot(publisher)).patterns).toContain('new-vendor/*')
  })
})
