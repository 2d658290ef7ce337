import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { openArchiveBrowser } from '../../src/archives/archive-files.ts'
import { checkUpload } from '../../src/archives/check-upload.ts'
import { checkZip } from '../../src/archives/check-zip.ts'
import { openArchiveStore } from '../../src/archives/store-owner.ts'
import { useApp } from '../support/app.ts'
import { versionRows } from '../support/package-rows.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { aZip, craftZip } from '../support/zip.ts'

const t = useApp({ TRUST_PROXY: 'true' })
const folder = await mkdtemp(join(tmpdir(), 'svc-test-many-'))
afterAll(() => rm(folder, { recursive: true }))

const manifest = (name: string) => JSON.stringify({ name, autoload: { 'psr-4': { 'A\\': 'src/' } } })

/** An archive of this many entries. `differs` changes every tenth file. */
function aWideZip(name: string, entryCount: number, directories: number, differs = ''): Buffer {
  const files = Array.from({ length: entryCount - 2 }, (_, i) => ({
    name: `src/d${i % directories}/File${i}.php`,
    content: `<?php // ${i % 10 === 0 ? differs : ''}`,
    method: 0,
  }))
  const link = { name: 'src/link', content: 'd1/File1.php', mode: 0o120777 }
  return craftZip([{ name: 'composer.json', content: manifest(name) }, link, ...files])
}

async function aFile(bytes: Buffer): Promise<string> {
  const path = join(folder, String(Math.random()))
  await writeFile(path, bytes)
  return path
}

const pathsOf = ['', 'src', 'src/d7', 'src/d7/File7.php', 'src/link', 'src/d', 'none', 'composer.json']

describe('an upload with many files', () => {
  it('is checked in a thread as on the main thread', async () => {
    const path = await aFile(aWideZip('wide/lib', 50_000, 100))
    const { tree: hereTree, ...here } = await checkZip(path)
    const { tree, ...checked } = await checkUpload(path)
    expect(checked).toEqual(here)
    expect(checked.entryCount).toBe(50_000)
    expect(pathsOf.map(tree)).toEqual(pathsOf.map(hereTree))
    expect(pathsOf.map(tree)).toEqual([
      ...['directory', 'directory', 'directory', 'file', 'link', null, null],
      'file',
    ])
  })

  it('is refused with the same error', async () => {
    const twice = Array.from({ length: 1500 }, (_, i) => ({ name: `f${i % 1499}`, content: '' }))
    const path = await aFile(craftZip([{ name: 'composer.json', content: manifest('wide/lib') }, ...twice]))
    const refusal = {
      name: 'Refusal',
      errcode: 3,
      status: 400,
      message: 'invalid archive: "f0" occurs twice',
    }
    await expect(checkZip(path)).rejects.toMatchObject(refusal)
    await expect(checkUpload(path)).rejects.toMatchObject(refusal)
    const long = Array.from({ length: 50_001 }, (_, i) => ({ name: `f${i}`, content: '', method: 0 }))
    await expect(checkUpload(await aFile(craftZip(long)))).rejects.toMatchObject({ status: 413 })
    const without = Array.from({ length: 1500 }, (_, i) => ({ name: `f${i}`, content: '' }))
    await expect(checkUpload(await aFile(craftZip(without)))).rejects.toMatchObject({
      details: expect.arrayContaining([expect.stringContaining('export-ignore')]),
    })
  })
})

describe('the pages of an archive with many files', () => {
  it('list its files in parts and compare it with another, without a list on the main thread', async () => {
    const { push, repository } = await aPublisher(t, { visibility: 'public' })
    const name = 'wide/lib'
    for (const [i, version] of ['1.0.0', '1.1.0'].entries()) {
      const payload = aWideZip(name, 10_000, 20, String(i))
      expect((await push(version, { name, payload })).statusCode).toBe(201)
    }
    const look = (below: string, from = '192.0.2.1') =>
      t.app.inject({
        url: `/${repository.path}/packages/${name}/-/${below}`,
        headers: { 'x-forwarded-for': from },
      })
    const { body } = await look('files?version=1.0.0&path=src/d0')
    expect([body.match(/File\d+\.php<\/a>/g)?.length, body.includes('from=300')]).toEqual([300, true])
    const compared = await look('compare?from=1.0.0&to=1.1.0')
    expect(compared.body).toContain('and 880 more')

    const store = await openArchiveStore(t.config)
    const archives = openArchiveBrowser(store)
    const [first = '', second = ''] = (await versionRows(t.db, name)).map(({ sha256 }) => sha256)
    expect(await archives.look(first, 'src/d17', { from: 499, limit: 10 })).toMatchObject({
      entries: [{ name: 'File9997.php', kind: 'file' }],
      isContinued: false,
    })
    expect(await archives.look(first, 'src/none')).toBeNull()
    expect(await archives.compare(first, second, { limit: 2 })).toEqual({
      added: { paths: [], left: 0 },
      removed: { paths: [], left: 0 },
      changed: { paths: ['src/d0/File0.php', 'src/d0/File100.php'], left: 998 },
    })
    const unknown = 'ab'.repeat(32)
    expect(await archives.look(unknown, '')).toBe('missing')
    expect(await archives.compare(first, unknown, { limit: 2 })).toBe('missing')
  })

  it('are made in turn: too many requests of one network get 429, and other networks their pages', async () => {
    const { push, repository } = await aPublisher(t, { visibility: 'public' })
    await push('1.0.0', {
      name: 'narrow/lib',
      payload: aZip({ 'composer.json': manifest('narrow/lib'), 'src/A.php': '' }),
    })
    const look = (from: string) =>
      t.app.inject({
        url: `/${repository.path}/packages/narrow/lib/-/files`,
        headers: { 'x-forwarded-for': from },
      })
    const many = Promise.all(Array.from({ length: 200 }, () => look('192.0.2.2')))
    const others = await Promise.all(['192.0.2.3', '198.51.100.1'].map(look))
    expect(others.map(({ statusCode }) => statusCode)).toEqual([200, 200])
    const responses = await many
    const refused = responses.filter(({ statusCode }) => statusCode !== 200)
    expect(refused.length).toBeGreaterThan(0)
    expect(responses.length - refused.length).toBeGreaterThanOrEqual(52)
    for (const { statusCode, headers } of refused)
      expect([statusCode, headers['retry-after']]).toEqual([429, '2'])
    expect((await look('192.0.2.2')).statusCode).toBe(200)
  })
})
