import { deflateRawSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { expectInvalid, refusalOf } from '../support/check-zip.ts'
import { aZip, type CraftedEntry, craftZip, extraField, unicodePathField } from '../support/zip.ts'

const json = '{"name":"acme/lib"}'
const manifest: CraftedEntry = { name: 'composer.json', content: json }
const packageOf = (...entries: CraftedEntry[]) => craftZip([manifest, ...entries])
const link = (name: string, target: string | Buffer): CraftedEntry => ({
  name,
  content: target,
  mode: 0o120777,
})
const file: CraftedEntry = { name: 'a.php', content: '<?php\n'.repeat(100) }

describe('checkZip, of an archive without composer.json,', () => {
  it('tells the publisher the usual reason', async () => {
    const { details } = await refusalOf(craftZip([{ name: 'src/a.php', content: 'x' }]))
    expect(details.join('\n')).toContain('export-ignore')
  })
})

describe('checkZip refuses a name', () => {
  it.each<[name: string | Buffer, why: string]>([
    ['', '"" is an empty name'],
    ['/', '"/" is an empty name'],
    ['../../x', '"../../x" has ".." in its name'],
    ['src/../../x', '"src/../../x" has ".." in its name'],
    ['src/..', '"src/.." has ".." in its name'],
    ['../', '"../" has ".." in its name'],
    ['/etc/passwd', '"/etc/passwd" has an absolute name'],
    ['C:/x.php', '"C:/x.php" has an absolute name'],
    ['c:x.php', '"c:x.php" has an absolute name'],
    ['src\\B.php', '"src\\\\B.php" has a backslash in its name; use "/" between directories'],
    ['..\\x', '"..\\\\x" has a backslash in its name; use "/" between directories'],
    ['a\0.php', '"a\\u0000.php" has a control character in its name'],
    ['a\n.php', '"a\\n.php" has a control character in its name'],
    ['a\x7f.php', '"a\\u007f.php" has a control character in its name'],
    ['\u009b31m.php', '"\\u009b31m.php" has a control character in its name'],
    ['a\u202ephp.exe', '"a\\u202ephp.exe" has a control character in its name'],
    ['a\u2028.php', '"a\\u2028.php" has a control character in its name'],
    ['./composer.lock', '"./composer.lock" has an empty or "." segment in its name'],
    ['src//a.php', '"src//a.php" has an empty or "." segment in its name'],
    ['src//', '"src//" has an empty or "." segment in its name'],
    [Buffer.from('caf\xe9.php', 'latin1'), '"café.php" is a name that is not UTF-8'],
    [`${'a'.repeat(256)}`, `"${'a'.repeat(199)}…" has a segment of more than 255 bytes`],
    [`${'a/'.repeat(512)}b`, `"${'a/'.repeat(100).slice(0, 199)}…" has a name of more than 1024 bytes`],
  ])('like %j', async (name, why) => {
    await expectInvalid(packageOf({ name, content: 'x' }), why)
  })

  it.each([
    ['of another entry', [file, file], '"a.php" occurs twice'],
    ['of another directory', [{ name: 'a/' }, { name: 'a/' }], '"a" occurs twice'],
    ['of a file and a directory', [{ name: 'a' }, { name: 'a/' }], '"a" occurs as file and as directory'],
    ['beneath a file', [{ name: 'a' }, { name: 'a/b' }], '"a/b" is inside "a", which is a file'],
    ['deep beneath a file', [{ name: 'a/b/c' }, { name: 'a' }], '"a/b/c" is inside "a", which is a file'],
    ['beneath a link', [link('a', '.'), { name: 'a/b' }], '"a/b" is inside "a", which is a link'],
    [
      'beneath a file, with another between by bytes',
      [{ name: 'a' }, { name: 'a-b' }, { name: 'a/c' }],
      '"a/c" is inside "a", which is a file',
    ],
    ['of a second composer.json', [manifest], '"composer.json" occurs twice'],
  ] as [string, CraftedEntry[], string][])('%s', async (_, entries, why) => {
    await expectInvalid(packageOf(...entries), why)
  })
})

describe('checkZip refuses a link', () => {
  it.each([
    ['x', '/etc/passwd', 'is a link to an absolute path'],
    ['x', 'C:/Windows', 'is a link to an absolute path'],
    ['x', '..', 'is a link that leads out of the package'],
    ['a/b/x', '../../../c', 'is a link that leads out of the package'],
    ['x', './/../c', 'is a link that leads out of the package'],
    ['a/b/x', 'c/../../../c', 'is a link with ".." after a name'],
    ['x', 'a/..', 'is a link with ".." after a name'],
    ['x', '', 'is a link with an unreadable target'],
    ['x', 'a\0b', 'is a link with an unreadable target'],
    ['x', '..\\a', 'is a link with an unreadable target'],
    ['x', 'a'.repeat(1025), 'is a link with a target of more than 1024 bytes'],
  ])('%s -> %s', async (name, target, why) => {
    await expectInvalid(packageOf(link(name, target)), `"${name}" ${why}`)
  })

  it('whose target is not UTF-8', async () => {
    await expectInvalid(packageOf(link('x', Buffer.from([0xe9]))), '"x" is a link with an unreadable target')
  })

  it('out of the single folder that Composer strips', async () => {
    const zip = craftZip([{ ...manifest, name: 'lib/composer.json' }, link('lib/x', '../lib')])
    await expectInvalid(zip, '"lib/x" is a link that leads out of the package')
  })

  it('that is marked by another host than Unix', async () => {
    const zip = packageOf({ ...link('x', '/etc/passwd'), central: { host: 0 } })
    await expectInvalid(zip, '"x" is a link to an absolute path')
  })
})

describe('checkZip refuses an entry', () => {
  const attributes = (mode: number, dos = 0) => ({ central: { attributes: ((mode << 16) | dos) >>> 0 } })
  const twoKinds = 'is a directory by its attributes, but its name does not end in "/"'
  const special = 'is a device, pipe or socket'
  const sizes = 'has another size or checksum in its local header'
  const descriptor = 'has no data descriptor, or a wrong one'

  it.each<[what: string, entry: CraftedEntry, why: string]>([
    ['that is a pipe', { name: 'x', mode: 0o010644 }, special],
    ['that is a character device', { name: 'x', mode: 0o020644 }, special],
    ['that is a block device', { name: 'x', mode: 0o060644 }, special],
    ['that is a socket', { name: 'x', mode: 0o140644 }, special],
    ['that is a directory by its mode alone', { name: 'x', mode: 0o040755 }, twoKinds],
    ['that is a directory by its DOS attribute alone', { name: 'x', ...attributes(0, 0x10) }, twoKinds],
    [
      'that is a directory and a link',
      { name: 'x/', mode: 0o120777 },
      'is a directory by its name and a link by its mode',
    ],
    ['that is a directory with contents', { name: 'x/', content: 'x' }, 'is a directory with contents'],

    ['that is encrypted', { name: 'x', flags: 1 }, 'is encrypted or patched'],
    ['that is patched', { name: 'x', flags: 1 << 5 }, 'is encrypted or patched'],
    ['with masked headers', { name: 'x', flags: 1 << 13 }, 'is encrypted or patched'],
    [
      'that is encrypted by its local header alone',
      { name: 'x', local: { flags: 0x801 } },
      'has other flags in its local header',
    ],
    ['compressed by bzip2', { name: 'x', method: 12 }, 'is compressed by method 12, not by deflate'],
    ['compressed by deflate64', { name: 'x', method: 9 }, 'is compressed by method 9, not by deflate'],
    [
      'with a name that is UTF-8 to one reader and of DOS to another',
      { name: 'é.php', flags: 0, central: { host: 0 } },
      'is not marked as UTF-8, and would be unpacked under another name',
    ],
    [
      'that only newer programs may extract',
      { name: 'x', central: { needed: 63 } },
      'needs version 6.3 of zip, but svc supports at most 4.5',
    ],

    [
      'with another local name',
      { ...file, local: { name: 'b.php' } },
      'has another name in its local header',
    ],
    [
      'with a longer local name',
      { ...file, local: { name: 'a.php5' } },
      'has another name in its local header',
    ],
    [
      'with another local method',
      { ...file, local: { method: 0 } },
      'has another compression method in its local header',
    ],
    ['with another local size', { ...file, local: { uncompressedSize: 7 } }, sizes],
    ['with another local compressed size', { ...file, local: { compressedSize: 7 } }, sizes],
    ['with another local checksum', { ...file, local: { crc: 7 } }, sizes],
    [
      'with open local sizes, and no descriptor',
      { ...file, local: { crc: 0, compressedSize: 0, uncompressedSize: 0 } },
      sizes,
    ],
    [
      'with another local size beside a descriptor',
      { ...file, descriptor: 16, local: { uncompressedSize: 7 } },
      sizes,
    ],
    ['with another local zip64 size', { ...file, zip64: true, local: { uncompressedSize: 7 } }, sizes],
    [
      'without its local zip64 sizes',
      { ...file, local: { compressedSize: 0xffffffff } },
      'lacks the zip64 sizes of its local header',
    ],
    [
      'that is UTF-8 in one header only',
      { ...file, local: { flags: 0 } },
      'has other flags in its local header',
    ],
    [
      'with a descriptor in one header only',
      { ...file, local: { flags: 0x808 } },
      'has other flags in its local header',
    ],
    [
      'with another Unicode path',
      { ...file, extra: unicodePathField('a.php', '../b.php') },
      'has another name in its extra field',
    ],
    [
      'with another Unicode path locally',
      { ...file, local: { extra: unicodePathField('a.php', 'b.php') } },
      'has another name in its extra field',
    ],
    [
      'with a rest behind its extra fields',
      { ...file, central: { extra: Buffer.from([1]) } },
      'has a damaged extra field',
    ],
    [
      'with a rest behind its local extra fields',
      { ...file, local: { extra: Buffer.concat([extraField(7, Buffer.alloc(2)), Buffer.alloc(3)]) } },
      'has a damaged extra field',
    ],
    [
      'with a damaged local extra field',
      { ...file, local: { extra: extraField(1, Buffer.alloc(9)).subarray(0, 8) } },
      'has a damaged extra field',
    ],

    ['without its descriptor', { ...file, descriptor: 16, descriptorBytes: Buffer.alloc(0) }, descriptor],
    ['with a false descriptor', { ...file, descriptor: 16, descriptorBytes: Buffer.alloc(16) }, descriptor],
    [
      'with a false descriptor without signature',
      { ...file, descriptor: 12, descriptorBytes: Buffer.alloc(12) },
      descriptor,
    ],
    [
      'with something behind its descriptor',
      { ...file, descriptor: 16, descriptorBytes: Buffer.alloc(100) },
      descriptor,
    ],
    ['that overlaps the directory', { ...file, central: { compressedSize: 100 } }, sizes],
    [
      'with bytes behind it',
      {
        ...file,
        raw: Buffer.concat([deflateRawSync('x'), Buffer.from('hidden')]),
        content: 'x',
        local: { compressedSize: 3 },
        central: { compressedSize: 3 },
      },
      'comes before 6 bytes that belong to no entry',
    ],

    [
      'that holds more than it announces',
      { ...file, local: { uncompressedSize: 599 }, central: { uncompressedSize: 599 } },
      'has more than the 599 bytes in its header',
    ],
    [
      'that holds less than it announces',
      { ...file, local: { uncompressedSize: 601 }, central: { uncompressedSize: 601 } },
      'has 600 bytes, but its header says 601',
    ],
    [
      'with a false checksum',
      { ...file, local: { crc: 7 }, central: { crc: 7 } },
      'does not match its checksum',
    ],
    [
      'with a false checksum, stored',
      { ...file, method: 0, local: { crc: 7 }, central: { crc: 7 } },
      'does not match its checksum',
    ],
    [
      'with bytes behind its deflated stream',
      { ...file, raw: Buffer.concat([deflateRawSync(file.content ?? ''), Buffer.from('hidden')]) },
      'has bytes after its compressed contents',
    ],
    [
      'with much behind its deflated stream',
      { ...file, raw: Buffer.concat([deflateRawSync(file.content ?? ''), Buffer.alloc(300_000, 'hidden')]) },
      'has bytes after its compressed contents',
    ],
    [
      'stored with two sizes',
      { ...file, method: 0, central: { compressedSize: 599 } },
      'is stored, but its two sizes differ',
    ],
  ])('%s', async (_, entry, why) => {
    await expectInvalid(packageOf(entry), `${JSON.stringify(entry.name)} ${why}`)
  })

  it.each<[what: string, entry: CraftedEntry, why: RegExp]>([
    ['that is not deflate', { ...file, raw: Buffer.alloc(20, 0xff) }, /^"a.php": invalid /],
    [
      'whose deflate is cut off',
      { ...file, raw: deflateRawSync(file.content ?? '').subarray(0, -3) },
      /^"a.php": unexpected end of file$/,
    ],
    ['without a local header', { ...file, only: 'central' }, /^"a.php" overlaps the data that follows it$/],
    [
      'whose local header is elsewhere',
      { ...file, central: { offset: 1 } },
      /^"composer.json" overlaps the data that follows it$/,
    ],
    [
      'whose local header is beyond the file',
      { ...file, central: { offset: 2 ** 31 } },
      /^"composer.json" comes before \d+ bytes that/,
    ],
    [
      'with strong encryption',
      { ...file, flags: 1 << 6 },
      /^directory entry 2: strong encryption is not supported$/,
    ],
    [
      'with a damaged extra field',
      { ...file, central: { extra: Buffer.from([1, 0, 9, 0]) } },
      /^directory entry 2: extra field length/,
    ],
  ])('%s', async (_, entry, why) => {
    await expectInvalid(packageOf(entry), why)
  })

  it('that its central directory does not list', async () => {
    await expectInvalid(
      packageOf({ name: 'evil.php', only: 'local' }),
      /^"composer.json" comes before \d+ bytes that belong to no entry$/,
    )
  })

  it('that has hidden bytes before it', async () => {
    const zip = packageOf({ ...file, junk: Buffer.from('junk') })
    await expectInvalid(zip, '"composer.json" comes before 4 bytes that belong to no entry')
  })

  it('that shares its contents with others (overlapping bomb)', async () => {
    await expectInvalid(overlappingBomb(20), '"f0" overlaps the data that follows it')
  })

  it('that shares its local header with another', async () => {
    const zip = packageOf({ ...file, only: 'central', central: { offset: 0 } })
    await expectInvalid(zip, '"composer.json" overlaps the data that follows it')
  })
})

describe('checkZip refuses a package', () => {
  const ds = { '.DS_Store': 'x' }
  it.each<[what: string, files: Record<string, string>, why: string]>([
    ['without composer.json', { 'a.php': 'x', 'b.php': 'x' }, 'composer.json is missing'],
    ['of src/ alone', { 'src/a.php': 'x' }, 'composer.json is missing'],
    [
      'of .DS_Store alone',
      { '.DS_Store/composer.json': json },
      '".DS_Store/composer.json" is not where Composer looks for composer.json',
    ],
    [
      'in one folder beside __MACOSX/',
      { 'lib/composer.json': json, '__MACOSX/lib/._composer.json': 'x' },
      '"lib/composer.json" is not where Composer looks for composer.json',
    ],
    [
      'in one folder beside a file',
      { 'lib/composer.json': json, 'README.md': 'x' },
      '"lib/composer.json" is not where Composer looks for composer.json',
    ],
    [
      'two folders deep',
      { 'a/b/composer.json': json, ...ds },
      '"a/b/composer.json" is not where Composer looks for composer.json',
    ],
    [
      'in two folders',
      { 'a/composer.json': json, 'b/composer.json': json },
      'there are several composer.json files, but none where Composer looks: "a/composer.json" and "b/composer.json"',
    ],
    [
      'with Composer.json',
      { 'Composer.json': json },
      '"Composer.json" is not where Composer looks for composer.json',
    ],
    [
      'with composer.json/',
      { 'composer.json/': '', 'a.php': 'x' },
      '"composer.json" must be a file, but is a directory',
    ],
    ['with auth.json', { 'composer.json': json, 'auth.json': '{}' }, '"auth.json" contains credentials'],
    ['with AUTH.JSON', { 'composer.json': json, 'AUTH.JSON': '{}' }, '"AUTH.JSON" contains credentials'],
    [
      'with auth.json in its only folder',
      { 'lib/composer.json': json, 'lib/auth.json': '{}' },
      '"lib/auth.json" contains credentials',
    ],
  ])('%s', async (_, files, why) => {
    await expectInvalid(aZip(files), why)
  })

  it('whose composer.json is a link', async () => {
    const zip = craftZip([link('composer.json', 'other.json'), { name: 'other.json', content: json }])
    await expectInvalid(zip, '"composer.json" must be a file, but is a link')
  })

  it('without composer.json where Composer looks for it, and names that place', async () => {
    const { body } = await refusalOf(aZip({ 'lib/composer.json': json, '__MACOSX/a': 'x' }))
    expect(body.details).toEqual([
      'Composer looks for composer.json at the top, or in the only folder there. The top level has "lib", "__MACOSX".',
    ])
  })
})

/**
 * A zip bomb as described by David Fifield. Each entry is a stored block that contains the local header of the next
 * entry. It then continues as that entry. All entries share one kernel, and each entry alone is valid.
 */
function overlappingBomb(count: number): Buffer {
  let content = Buffer.alloc(100_000)
  const kernel = deflateRawSync(content)
  let compressedSize = kernel.length
  const bomb: CraftedEntry[] = [{ name: `f${count - 1}`, content, raw: kernel }]
  for (let i = count - 2; i >= 0; i--) {
    const next = craftZip([{ ...bomb[0], raw: Buffer.alloc(0), name: `f${i + 1}` }]).subarray(
      0,
      30 + `f${i + 1}`.length,
    )
    next.writeUInt32LE(compressedSize, 18)
    content = Buffer.concat([next, content])
    compressedSize += next.length + 5
    const block = Buffer.from([0, next.length, 0, ~next.length & 0xff, 0xff])
    bomb.unshift({
      name: `f${i}`,
      content,
      raw: block,
      local: { compressedSize },
      central: { compressedSize },
    })
  }
  return craftZip([manifest, ...bomb])
}
