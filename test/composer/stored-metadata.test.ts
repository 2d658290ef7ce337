import { describe, expect, it } from 'vitest'
import { isReadableJson, repairMetadata } from '../../src/composer/manifest-fields.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { expand } from '../support/registry-actors.ts'
import { setMetadata } from '../support/version-rows.ts'

describe('repairMetadata', () => {
  it('leaves readable metadata alone', () => {
    const metadata = {
      description: 'Größe 👩‍👩‍👧 \\ud800',
      autoload: { 'psr-4': { 'App\\ud800\\': 'src/' } },
      require: { 'acme/odd': 'no constraint at all' },
      extra: { a: 'x\n\ty "z"' },
    }
    expect(isReadableJson(JSON.stringify(metadata))).toBe(true)
    expect(repairMetadata(metadata)).toBe(metadata)
  })

  it('removes characters that make PHP refuse a document, and makes broken constraints match nothing', () => {
    const stored = {
      description: 'a\ud800b\u202e\u2028c',
      require: { 'acme/a': '^1.0', 'acme/b': '>=\ud8001 <\u0007', 'acme/c': '^1\u200e.0' },
      suggest: { 'acme/d': '\udc00why' },
    }
    expect(isReadableJson(JSON.stringify(stored))).toBe(false)
    expect(repairMetadata(stored)).toEqual({
      description: 'abc',
      require: { 'acme/a': '^1.0', 'acme/b': 'dev-unreadable', 'acme/c': '^1.0' },
      suggest: { 'acme/d': 'why' },
    })
  })
})

describe('a version that an earlier release stored with a lone surrogate', () => {
  const t = useApp()

  it('breaks no other version, and no change of the package', async () => {
    const { call, push, ask } = await aCaller(t, { role: 'admin' })
    for (const version of ['1.0.0', '1.1.0', '1.2.0']) await push(version)
    await setMetadata(t.db, '1.1.0', {
      metadata: String.raw`{"type":"library","description":"\udc00x","require":{"acme/b":"dev-\ud800"}}`,
      difference: (before) => before.replaceAll('"version"', String.raw`"description":"\udc00x","version"`),
    })
    expect((await call('DELETE', '/packages/acme/lib/1.2.0')).statusCode).toBe(204)
    expect((await call('PATCH', '/packages/acme/lib', { abandoned: true })).statusCode).toBe(200)
    expect((await push('1.3.0')).statusCode).toBe(201)
    expect((await call('DELETE', '/packages/acme/lib/1.3.0')).statusCode).toBe(204)
    const { body } = await ask('p2/acme/lib.json')
    expect(isReadableJson(body)).toBe(true)
    expect(expand(body)).toMatchObject([
      { version: '1.1.0', description: 'x', require: { 'acme/b': 'dev-' } },
      { version: '1.0.0' },
    ])
    expect((await call('GET', '/packages/acme/lib')).json()).toMatchObject({ description: 'x' })
  })

  it('is repaired when its document is rendered again', async () => {
    const { push, ask } = await aCaller(t, { role: 'admin' })
    for (const version of ['1.0.0', '1.1.0', '1.2.0']) await push(version)
    await setMetadata(t.db, '1.0.0', {
      metadata: String.raw`{"description":"\ud800x"}`,
      difference: () => String.raw`{"version":"1.0.0","description":"\ud800x"}`,
    })
    await push('1.3.0')
    const { body } = await ask('p2/acme/lib.json')
    expect(isReadableJson(body)).toBe(true)
    expect(expand(body).at(-1)).toMatchObject({ version: '1.0.0', description: 'x' })
  })
})
