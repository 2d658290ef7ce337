import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { aCaller, type Caller } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { addVersions, countWrittenVersions } from '../../support/package-rows.ts'
import { expand } from '../../support/registry-actors.ts'

const t = useApp()
const lib = '/packages/acme/lib'

/** A package with so many versions that its document is read and written in several parts. */
async function aLargePackage(): Promise<Caller> {
  const caller = await aCaller(t)
  await caller.push('0.1.0', { manifest: { description: 'large' } })
  await addVersions(t.db, caller.repository, 2500)
  return caller
}

describe('a document of thousands of versions', () => {
  it('comes back as it was, entry by entry, when its package is deleted and restored', async () => {
    const { call, ask, push } = await aLargePackage()
    const entries = async () => expand((await ask('p2/acme/lib.json')).body)
    await call('DELETE', lib)
    expect(await entries()).toEqual([])
    expect((await call('POST', `${lib}/restore`)).statusCode).toBe(200)
    const restored = await entries()
    expect(restored).toHaveLength(2501)
    for (const [i, entry] of restored.slice(0, 2500).entries()) {
      const minor = Number(String(entry['version']).split('.')[1])
      expect([i, entry['description']]).toEqual([i, minor % 7 === 0 ? 'seventh' : 'other'])
    }
    expect(new Set(restored.map(({ version }) => version)).size).toBe(2501)
    await push('0.2.0')
    expect(await entries()).toHaveLength(2502)
  })

  it('is marked abandoned in its first entry only, because the others inherit it', async () => {
    const { call, ask } = await aLargePackage()
    await call('DELETE', lib)
    await call('POST', `${lib}/restore`)
    const before = (await ask('p2/acme/lib.json')).body
    const written = await countWrittenVersions(t.db, () =>
      call('PATCH', lib, { abandoned: true, replacement: 'acme/better' }),
    )
    expect(written).toBe(1)
    const entries = expand((await ask('p2/acme/lib.json')).body)
    expect(new Set(entries.map(({ abandoned }) => abandoned))).toEqual(new Set(['acme/better']))
    await call('PATCH', lib, { abandoned: false })
    expect((await ask('p2/acme/lib.json')).body).toBe(before)
  })

  it('is the same in every content coding, however large it is', async () => {
    const { call, ask } = await aLargePackage()
    await call('DELETE', lib)
    await call('POST', `${lib}/restore`)
    const plain = await ask('p2/acme/lib.json')
    expect(plain.rawPayload.length).toBeGreaterThan(600_000)
    const read = async (coding: string) =>
      (await ask('p2/acme/lib.json', { headers: { 'accept-encoding': coding } })).rawPayload
    expect(gunzipSync(await read('gzip')).equals(plain.rawPayload)).toBe(true)
    expect(brotliDecompressSync(await read('br')).equals(plain.rawPayload)).toBe(true)
  })
})
