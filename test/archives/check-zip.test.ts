import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import type { Entry } from 'yauzl'
import { listWarnings, sortTree } from '../../src/archives/archive-tree.ts'
import { checkZip } from '../../src/archives/check-zip.ts'
import type { PackageTree } from '../../src/composer/composer-json.ts'
import { checkZipOf, refusalOf } from '../support/check-zip.ts'
import { aZip, type CraftedEntry, craftZip, unicodePathField } from '../support/zip.ts'

const json = '{"name":"acme/lib"}'
const php = '<?php\n'.repeat(100)
const manifest: CraftedEntry = { name: 'composer.json', content: json }
const packageOf = (...entries: CraftedEntry[]) => craftZip([manifest, ...entries])
const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 12345\n`
const link = (name: string, target: string): CraftedEntry => ({ name, content: target, mode: 0o120777 })

describe('checkZip', () => {
  it('returns the manifest and what it counted', async () => {
    const checked = await checkZipOf(aZip({ 'composer.json': json, 'src/Lib.php': php }))
    expect(checked).toEqual({
      manifest: Buffer.from(json),
      manifestPath: 'composer.json',
      readme: null,
      lfsPointer: null,
      tree: expect.any(Function),
      packedTree: { keys: 'composer.json\nsrc\0Lib.php', kinds: 'ff', root: '' },
      entryCount: 2,
      inflatedBytes: json.length + php.length,
      warnings: [],
    })
    expect(kindsIn(checked.tree, '', 'composer.json', 'src', 'src/Lib.php', 'src/Lib', 'lib')).toEqual([
      'directory',
      'file',
      'directory',
      'file',
      null,
      null,
    ])
  })

  it('finds the manifest where Composer strips a single folder', async () => {
    const zip = aZip({ '.DS_Store': 'x', 'lib-1.0/composer.json': json, 'lib-1.0/src/A.php': php })
    const checked = await checkZipOf(zip)
    expect(checked).toMatchObject({ manifestPath: 'lib-1.0/composer.json', manifest: Buffer.from(json) })
    expect(kindsIn(checked.tree, '', 'composer.json', 'src', 'src/A.php', '.DS_Store', 'lib-1.0')).toEqual([
      'directory',
      'file',
      'directory',
      'file',
      null,
      null,
    ])
  })

  it.each([
    ['README.md', 'text', { text: 'text', isMarkdown: true }],
    ['readme', 'text', { text: 'text', isMarkdown: false }],
    ['Readme.markdown', 'é'.repeat(40_000), { text: 'é'.repeat(32_768), isMarkdown: true }],
    ['docs/README.md', 'text', null],
    ['README.md/a', 'text', null],
  ])('keeps the beginning of %s', async (name, content, readme) => {
    const zip = aZip({ 'lib/composer.json': json, [`lib/${name}`]: content, 'lib/x': 'x' })
    expect((await checkZipOf(zip)).readme).toEqual(readme)
  })

  it.each([
    ['a pointer', pointer, 'a.bin'],
    ['a pointer with the line ends of Windows', pointer.replaceAll('\n', '\r\n'), 'a.bin'],
    ['a file that quotes a pointer', `#\n${pointer}`, null],
    ['a file that is longer than pointers', pointer.padEnd(1025, 'x'), null],
    ['a file of another version', pointer.replace('spec/v1', 'spec/v10'), null],
  ])('tells %s of Git LFS from other files', async (_, content, lfsPointer) => {
    const zip = packageOf({ name: 'a.bin', content }, link('link', 'a.bin'), { name: 'b.bin', content })
    expect((await checkZipOf(zip)).lfsPointer).toBe(lfsPointer)
  })

  it('says which entry is wrong, in the words of the registry', async () => {
    const { body, status } = await refusalOf(packageOf({ name: '../evil.php' }))
    expect(body).toEqual({ errcode: 3, errmsg: 'invalid archive: "../evil.php" has ".." in its name' })
    expect(status).toBe(400)
  })

  it('does not change the error of a failing system call', async () => {
    await expect(checkZip(join(tmpdir(), 'no-such-archive'))).rejects.toMatchObject({ code: 'ENOENT' })
    await expect(checkZip(tmpdir())).rejects.toMatchObject({ code: 'EISDIR' })
  })

  const accepted: [what: string, zip: Buffer][] = [
    ['stored entries', packageOf({ name: 'a.php', content: php, method: 0 })],
    ['empty files', packageOf({ name: 'a.php' }, { name: 'b.php', method: 0 })],
    ['directory entries', packageOf({ name: 'src/' }, { name: 'src/a.php', content: php })],
    ['directories without a mode', packageOf({ name: 'src/', mode: 0 })],
    ['executables', packageOf({ name: 'bin/lib', content: '#!/bin/sh\n', mode: 0o100755 })],
    ['set-uid bits, which unzip drops', packageOf({ name: 'bin/lib', content: '#!', mode: 0o104755 })],
    ['a link within the tree', packageOf(link('bin/lib', '../src/lib'), { name: 'src/lib', content: 'x' })],
    ['a link to a directory', packageOf(link('current', './v1/'), { name: 'v1/a.php', content: php })],
    ['a link to the root itself', packageOf(link('a/root', '..'))],
    [
      'a link within a single folder',
      craftZip([{ ...manifest, name: 'lib/composer.json' }, link('lib/a/b', '../c')]),
    ],
    ['zip64 entries', craftZip([{ ...manifest, zip64: true }])],
    ['a zip64 end record', craftZip([manifest], { zip64: true })],
    [
      'a zip64 end record beside a classic one that is full',
      craftZip([manifest], { zip64: true, end: { count: 1, onDisk: 1 } }),
    ],
    ['a comment', craftZip([manifest], { comment: Buffer.from('0123456789abcdef') })],
    ['a data descriptor of 12 bytes', craftZip([{ ...manifest, descriptor: 12 }])],
    ['a data descriptor of 16 bytes', craftZip([{ ...manifest, descriptor: 16 }])],
    ['a data descriptor of 20 bytes', craftZip([{ ...manifest, descriptor: 20 }])],
    ['a data descriptor of 24 bytes', craftZip([{ ...manifest, descriptor: 24, zip64: true }])],
    ['a data descriptor of a stored entry', craftZip([{ ...manifest, descriptor: 16, method: 0 }])],
    [
      'a data descriptor that repeats the local header',
      craftZip([{ ...manifest, descriptor: 16, local: { crc: crc32(json), uncompressedSize: json.length } }]),
    ],
    [
      'a Unicode path that is the name',
      packageOf({ name: 'é.php', extra: unicodePathField('é.php', 'é.php') }),
    ],
    ['a stored zip at its end', packageOf({ name: 'a.zip', method: 0, content: aZip({ 'a.php': php }) })],
    ['an empty zip at its end', packageOf({ name: 'a.zip', method: 0, content: craftZip([]) })],
    ['another composer.json deeper down', aZip({ 'composer.json': json, 'tests/composer.json': '{}' })],
    ['auth.json deeper down', aZip({ 'composer.json': json, 'tests/auth.json': '{}' })],
    ['local headers in another order than the directory', swapped()],
  ]
  it.each(accepted)('accepts %s', async (_, zip) => {
    expect((await checkZipOf(zip)).manifest.toString()).toBe(json)
  })
})

describe('checkZip, of contents that were probably included by mistake,', () => {
  const names = (...list: string[]) =>
    checkZipOf(aZip(Object.fromEntries([['composer.json', json], ...list.map((name) => [name, 'x'])])))

  it.each([
    ['.env', '".env" may contain secrets'],
    ['config/.env.local', '"config/.env.local" may contain secrets'],
    ['tests/auth.json', '"tests/auth.json" may contain secrets'],
    ['.ssh/id_rsa', '".ssh/id_rsa" may contain secrets'],
    ['vendor/autoload.php', '"vendor/autoload.php" is a dependency packed with the package; exclude vendor/'],
    [
      'web/node_modules/a.js',
      '"web/node_modules/a.js" is a dependency packed with the package; exclude node_modules/',
    ],
    ['.git/config', '".git/config" belongs to version control; exclude it'],
    ['package.ZIP', '"package.ZIP" is an archive within the archive, perhaps an earlier build'],
    ['__MACOSX/._a.php', '"__MACOSX/._a.php" is a leftover of macOS'],
    ['src/aux.php', '"src/aux.php" cannot be unpacked on Windows'],
    ['src/a:b.php', '"src/a:b.php" cannot be unpacked on Windows'],
    ['src/dot./a.php', '"src/dot./a.php" cannot be unpacked on Windows'],
  ])('warns of %s', async (name, warning) => {
    expect((await names(name)).warnings).toEqual([warning])
  })

  it.each([
    '.env.example',
    '.env.dist',
    'src/vendor/a.php',
    '.github/ci.yml',
    'src/Auxiliary.php',
    'src/zip.php',
  ])('does not warn of %s', async (name) => {
    expect((await names(name)).warnings).toEqual([])
  })

  it('warns of vendor/ within a single folder', async () => {
    const { warnings } = await checkZipOf(aZip({ 'lib/composer.json': json, 'lib/vendor/a.php': 'x' }))
    expect(warnings).toHaveLength(1)
  })

  it.each([
    ['src/lib.php', 'src/Lib.php'],
    ['src/a/b.php', 'src/A'],
    ['src/\u00e9.php', 'src/e\u0301.php'],
  ])('warns of %s beside %s', async (...two) => {
    const { warnings } = await names(...two)
    expect(warnings).toEqual([expect.stringMatching(/differs from another name by case only/)])
  })

  it('warns of names that are not marked as UTF-8', async () => {
    const { warnings } = await checkZipOf(packageOf({ name: 'é.php', flags: 0 }))
    expect(warnings).toEqual(['"é.php" is not marked as UTF-8, and may be unpacked under another name'])
  })

  it('warns once for each kind', async () => {
    const { warnings } = await names('.env', 'vendor/a.php', 'vendor/b.php', 'vendor/c.php')
    expect(warnings).toEqual([
      '".env" may contain secrets',
      '"vendor/a.php" is a dependency packed with the package; exclude vendor/ (and 2 more)',
    ])
  })
})

describe('checkZip, of archives that are too large or too deep,', () => {
  it.each([
    ['entries', { maxEntries: 1 }, 'it has 2 entries, but at most 1 are allowed'],
    ['names and headers', { maxDirectoryBytes: 100 }, 'its directory has more than 100 bytes'],
    ['contents', { maxInflatedBytes: 600 }, 'it unpacks to 619 bytes, but at most 600 are allowed'],
    ['manifest', { maxManifestBytes: 18 }, 'composer.json has more than 18 bytes'],
    ['path segments', { maxPathSegments: 1 }, 'up to "a.php" its paths have more than 1 segments'],
  ])('refuses too many bytes of %s with 413', async (_, limits, why) => {
    const { status, body } = await refusalOf(packageOf({ name: 'a.php', content: php }), limits)
    expect({ status, ...body }).toEqual({ status: 413, errcode: 8, errmsg: `archive too large: ${why}` })
  })

  it('accepts an archive that reaches the limits', async () => {
    const limits = {
      maxEntries: 2,
      maxDirectoryBytes: 110,
      maxPathSegments: 2,
      maxInflatedBytes: 619,
      maxManifestBytes: 19,
    }
    expect((await checkZipOf(packageOf({ name: 'a.php', content: php }), limits)).inflatedBytes).toBe(619)
  })

  it('refuses an archive that unpacks to more than a hundred times its size', async () => {
    const zeros = (megabytes: number) =>
      packageOf({ name: 'zeros', content: Buffer.alloc(megabytes * 2 ** 20) })
    expect((await refusalOf(zeros(51))).errmsg).toMatch(
      /it unpacks to \d+ bytes, more than 100 times its size$/,
    )
    expect(await checkZipOf(zeros(49))).toMatchObject({ inflatedBytes: 49 * 2 ** 20 + json.length })
  })

  it('rejects an entry that is more than 64 levels deep, and names it', async () => {
    const at = (levels: number) => packageOf({ name: `${'d/'.repeat(levels - 1)}a.php` })
    expect((await checkZipOf(at(64))).entryCount).toBe(2)
    const { errcode, errmsg } = await refusalOf(at(65))
    expect(errcode).toBe(3)
    expect(errmsg).toMatch(/^invalid archive: "(?:d\/){64}a\.php" is more than 64 levels deep$/)
  })

  it('lets other requests run while it works without any I/O', async () => {
    const directory = `${'d'.repeat(30)}/`.repeat(29)
    const header = { generalPurposeBitFlag: 1 << 11, fileNameRaw: Buffer.alloc(0) } as Entry
    const entries = Array.from({ length: 50_000 }, (_, i) => {
      return { name: `${directory}${(i * 7919) % 50_000}`, kind: 'file', header } as const
    })
    expect(await countTurns(() => sortTree(entries))).toBeGreaterThan(0)
    expect(await countTurns(() => listWarnings(entries, ''))).toBeGreaterThan(0)
  })

  it('stops at the announced size, whatever the contents are', async () => {
    const bomb = packageOf({
      name: 'bomb',
      content: Buffer.alloc(60 * 2 ** 20),
      local: { uncompressedSize: 5 },
      central: { uncompressedSize: 5 },
    })
    expect((await refusalOf(bomb)).errmsg).toBe(
      'invalid archive: "bomb" has more than the 5 bytes in its header',
    )
  })
})

function kindsIn(tree: PackageTree, ...paths: string[]) {
  return paths.map((path) => tree(path))
}

/** Counts the turns of the event loop until the work is done. In each turn other work can run. */
async function countTurns(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let isRunning = true
  const turn = () => {
    if (!isRunning) return
    turns += 1
    setImmediate(turn)
  }
  setImmediate(turn)
  await work()
  isRunning = false
  return turns
}

/** The manifest is the second entry in the file, and the first in the directory. */
function swapped(): Buffer {
  const zip = craftZip([{ name: 'a.json', content: 'x' }, manifest])
  const directory = zip.readUInt32LE(zip.length - 6)
  const first = zip.subarray(directory, directory + 46 + 6)
  const second = zip.subarray(directory + 46 + 6, zip.length - 22)
  return Buffer.concat([zip.subarray(0, directory), second, first, zip.subarray(zip.length - 22)])
}
