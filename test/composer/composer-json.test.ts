import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { maxMetadataBytes, readComposerJson } from '../../src/composer/composer-json.ts'
import { readVersion } from '../../src/composer/composer-version.ts'
import { type JsonObject, maxManifestBytes, maxManifestDepth } from '../../src/composer/manifest-json.ts'
import { Refusal } from '../../src/domain/refusal.ts'
import { askComposer, hasComposer } from '../support/composer-oracle.ts'
import { manifests } from './manifests.ts'

const bytesOf = (text: string) => new TextEncoder().encode(text)

function readText(text: string, version = '1.0.0') {
  return readComposerJson(bytesOf(text), 'acme/lib', readVersion(version))
}

function read(fields: unknown, version?: string) {
  return readText(JSON.stringify({ name: 'acme/lib', ...(fields as object) }), version)
}

/** Returns the error message for a manifest that is rejected. */
function refusal(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    if (error instanceof Refusal) return `${error.errcode}/${error.status} ${error.errmsg}`
    throw error
  }
  return 'not refused'
}

describe('the samples of COMPOSER E2', () => {
  interface Sample {
    case: string
    fragment: Record<string, unknown>
    rc: Record<string, number>
  }
  const samples: Sample[] = JSON.parse(
    readFileSync(new URL('../fixtures/composer-manifests.json', import.meta.url), 'utf8'),
  )
  const breaking = samples.filter(({ rc }) => Object.values(rc).some((code) => code !== 0))
  const harmless = samples.filter((sample) => !breaking.includes(sample) && sample.case !== 'name_other')

  it.each(breaking)('refuses $case, which breaks consumers, naming the field', ({ fragment }) => {
    const [field] = Object.keys(fragment)
    expect(refusal(() => read(fragment))).toMatch(`3/400 composer.json: ${field}`)
  })

  it.each(harmless)('accepts $case, which breaks no consumer', ({ fragment }) => {
    expect(() => read(fragment)).not.toThrow()
  })
})

describe('the file', () => {
  it.each([
    ['no JSON', '{"name": "acme/lib",}', 'is not valid JSON'],
    ['an empty file', '', 'is not valid JSON'],
    ['a byte order mark', '\ufeff{"name": "acme/lib"}', 'is not valid JSON'],
    ['a list', '["acme/lib"]', 'must be a JSON object'],
    ['null', 'null', 'must be a JSON object'],
  ])('is refused with %s', (_, text, reason) => {
    expect(refusal(() => readText(text))).toMatch(/^3\/400 composer\.json:? /)
    expect(refusal(() => readText(text))).toContain(reason)
  })

  it.each([
    ['plain', '{"name":"acme/x","type":"a","name":"acme/lib","type":"b"}', ['name', 'type'], { type: 'b' }],
    ['escaped', '{"name":"acme/lib","type":"a","t\\u0079pe" : "b"}', ['type'], { type: 'b' }],
    ['deep', '{"name":"acme/lib","extra":{"a":{"b":1,"b":2}}}', ['b'], { extra: { a: { b: 2 } } }],
    [
      'with objects',
      '{"name":"acme/lib","suggest":{"a":"x"},"suggest":{"b":"y"}}',
      ['suggest'],
      { suggest: { b: 'y' } },
    ],
  ])('may repeat a key, %s: its last value counts, as in PHP, with a warning', (_, text, keys, metadata) => {
    expect(readText(text)).toEqual({
      metadata,
      warnings: keys.map((key) => `${key} is repeated in the same object: only its last value is used`),
    })
  })

  it('reports at most ten repeated keys', () => {
    const keys = Array.from({ length: 50 }, (_, i) => `"k${i}":1,"k${i}":2`)
    expect(readText(`{"name":"acme/lib",${keys.join()}}`).warnings).toHaveLength(10)
  })

  it('may repeat a key in another object, or as a value', () => {
    expect(
      readText('{"name":"acme/lib","extra":{"a":{"x":"a\\":"},"b":[{"x":"x"},{"x":"a"}]}}').metadata,
    ).toEqual({
      extra: { a: { x: 'a":' }, b: [{ x: 'x' }, { x: 'a' }] },
    })
  })

  it('is refused unless it is UTF-8', () => {
    const latin1 = Uint8Array.from(Buffer.from('{"name":"acme/lib","description":"Größe"}', 'latin1'))
    expect(refusal(() => readComposerJson(latin1, 'acme/lib', readVersion('1.0.0')))).toContain(
      'is not UTF-8',
    )
  })

  it('has 512 KiB at most', () => {
    const largest = '{"name":"acme/lib"}'.padEnd(maxManifestBytes)
    expect(readText(largest).metadata).toEqual({})
    expect(refusal(() => readText(`${largest} `))).toMatch('8/413 composer.json is larger than 524288 bytes')
  })

  it('may nest at most 64 levels', () => {
    const nested = (levels: number) =>
      `{"name":"acme/lib","extra":{"a":${'['.repeat(levels)}${']'.repeat(levels)}}}`
    expect(() => readText(nested(maxManifestDepth - 2))).not.toThrow()
    expect(refusal(() => readText(nested(maxManifestDepth - 1)))).toContain('nests deeper than 64 levels')
    expect(refusal(() => readText(nested(200_000)))).toContain('nests deeper than 64 levels')
  })

  it('may have at most 64 KiB of published keys, and the error names the large key', () => {
    const extra = (length: number) => ({ extra: { a: 'x'.repeat(length) } })
    const frame = JSON.stringify(extra(0)).length
    expect(() => read(extra(maxMetadataBytes - frame))).not.toThrow()
    expect(maxMetadataBytes).toBe(65_536)
    const tooLarge = { description: 'x'.repeat(100), ...extra(maxMetadataBytes - frame - 99) }
    expect(refusal(() => read(tooLarge))).toBe(
      `8/413 composer.json has more than 65536 bytes to publish; the largest key is extra, with ${maxMetadataBytes - 100}`,
    )
    const links = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`a/b${i}`, 'nope!']))
    expect(refusal(() => read({ require: links }))).toMatch(
      /^8\/413 .* the largest key is require, with 3\d{5}/,
    )
    expect(() => read({ scripts: { a: 'x'.repeat(maxMetadataBytes) } })).not.toThrow()
  })
})

describe('name', () => {
  it.each([
    [{ name: null }, 'name must be "acme/lib"'],
    [{ name: 7 }, 'name must be "acme/lib"'],
    [{ name: 'evil/other' }, 'name must be "acme/lib", not "evil/other"'],
    [{ name: 'acme/lib ' }, 'not "acme/lib "'],
    [{ name: '\u001b[2Jx' }, 'not "?[2Jx"'],
  ])('of %j is refused', (fields, reason) => {
    expect(refusal(() => read(fields))).toContain(reason)
  })

  it('may be in upper case', () => {
    expect(() => read({ name: 'Acme/Lib' })).not.toThrow()
  })

  it('is compared as Composer does: the Kelvin sign is no k', () => {
    const kit = bytesOf('{"name":"acme/\u212ait"}')
    expect(refusal(() => readComposerJson(kit, 'acme/kit', readVersion('1.0.0')))).toContain(
      'name must be "acme/kit"',
    )
  })
})

describe('version', () => {
  it.each(['1.0.0', 'v1.0.0', '1.0', 1])('%j is accepted for 1.0.0, with a warning', (version) => {
    expect(read({ version })).toEqual({
      metadata: {},
      warnings: [expect.stringContaining('version can be left out')],
    })
  })

  it.each(['1.0.1', 'dev-main', 'nonsense', 2, '1.0.0-dev'])(
    '%j is refused for 1.0.0 (COMPOSER E3)',
    (version) => {
      expect(refusal(() => read({ version }))).toContain(
        `version must be "1.0.0" or absent, not "${version}"`,
      )
    },
  )

  it.each([[['1.0.0']], [{ a: 1 }], [true]])('%j is refused', (version) => {
    expect(refusal(() => read({ version }))).toContain('version must be a string')
  })

  it('null is no version', () => {
    expect(read({ version: null }).warnings).toEqual([])
  })
})

describe('links', () => {
  it('are published as they were written, their targets in lower case as Composer has them', () => {
    const links = {
      require: {
        php: '>=8.2',
        'ext-JSON': '*',
        'Acme/Other': '^1.0 || ^2.0@dev',
        'acme/b': 'dev-main#abc as 1.0',
      },
      'require-dev': { 'acme/c': '~1.0' },
      conflict: { 'acme/d': '<2.0' },
      replace: { 'acme/e': 'self.version' },
      provide: { 'psr/log-implementation': '1.0' },
      suggest: { 'ext-foo': 'is faster', anything: '' },
    }
    const { 'ext-JSON': json, 'Acme/Other': other, ...others } = links.require
    const require = { ...others, 'ext-json': json, 'acme/other': other }
    expect(read(links)).toEqual({ metadata: { ...links, require }, warnings: [] })
    expect(read({ require: { 'Acme/B': '^1', 'acme/b': '^2' } }).metadata).toEqual({
      require: { 'acme/b': '^2' },
    })
  })

  it.each(['require', 'require-dev', 'conflict', 'replace', 'provide'])('of %s must be valid', (type) => {
    const wrong = (links: unknown) => refusal(() => read({ [type]: links }))
    expect(wrong({ 'a/b': 'nope!' })).toContain(`${type}.a/b must be a version constraint`)
    expect(wrong({ 'a/b': ' self.version' })).toContain(`${type}.a/b must be a version constraint`)
    expect(wrong({ 'a/b': null })).toContain(`${type}.a/b must be a string`)
    expect(wrong({ 'a/b': 1 })).toContain(`${type}.a/b must be a string`)
    expect(wrong({ '../b': '1' })).toContain(`${type}.../b is not the name`)
    expect(wrong({ 'acme/\u212ait': '1' })).toContain('is not the name')
    expect(wrong({ 'a/b/c': '1' })).toContain(`${type}.a/b/c is not the name`)
    expect(wrong({ 'two words': '1' })).toContain(`${type}.two words is not the name`)
    for (const value of ['a/b', '', true, 0, ['a/b']])
      expect(wrong(value)).toContain(`${type} must be an object`)
    for (const value of [null, [], {}]) expect(read({ [type]: value }).metadata).toEqual({})
  })

  it.each(['require', 'require-dev'])('of %s need a vendor', (type) => {
    expect(refusal(() => read({ [type]: { news: '*' } }))).toContain(`${type}.news is not the name`)
    expect(refusal(() => read({ [type]: { 7: '*' } }))).toContain(`${type}.7 is not the name`)
  })

  it.each(['conflict', 'replace', 'provide'])(
    'of %s without a vendor are left out with a warning',
    (type) => {
      const { metadata, warnings } = read({ [type]: { news: '*', 7: '*', 'acme/b': '1', php: '*' } })
      expect(metadata).toEqual({ [type]: { 'acme/b': '1', php: '*' } })
      expect(warnings.sort()).toEqual([
        `${type}.7 is left out: the name of a package is vendor/package`,
        `${type}.news is left out: the name of a package is vendor/package`,
      ])
    },
  )

  it('to the package itself are left out', () => {
    const { metadata, warnings } = read({
      require: { 'Acme/Lib': '^1', 'acme/b': '1' },
      conflict: { 'acme/lib': '1' },
    })
    expect(metadata).toEqual({ require: { 'acme/b': '1' } })
    expect(warnings).toHaveLength(2)
  })

  it('that contradict each other are worth a warning', () => {
    expect(read({ conflict: { 'a/b': '1' }, replace: { 'a/b': '1' } }).warnings).toEqual([
      expect.stringContaining('conflict.a/b'),
    ])
  })

  it('of suggest are texts by package name', () => {
    expect(read({ suggest: { 'a/\u001b[1mb': '\u001b[31mred\nline' } }).metadata).toEqual({
      suggest: { 'a/b': 'red line' },
    })
    expect(refusal(() => read({ suggest: { 7: 'x' } }))).toContain('suggest.7 must be the name')
    expect(refusal(() => read({ suggest: { a: null } }))).toContain('suggest.a must be a string')
  })
})

describe('installation', () => {
  it('is published as it was written, with lists in one form', () => {
    const installation = {
      type: 'symfony-bundle',
      autoload: {
        'psr-4': { 'Acme\\': 'src/', '': ['lib/', ''] },
        'psr-0': { Acme: 'old/' },
        classmap: ['a/', 'b.php'],
        files: ['functions.php'],
        'exclude-from-classmap': ['/Tests/'],
      },
      'include-path': ['lib/'],
      'php-ext': { 'extension-name': 'acme' },
    }
    expect(read(installation)).toEqual({ metadata: installation, warnings: [] })
    expect(read({ 'target-dir': 'Acme/Lib', bin: 'bin/x' }).metadata).toEqual({
      'target-dir': 'Acme/Lib',
      bin: ['bin/x'],
    })
    expect(read({ bin: { a: 'bin/x', b: '' } }).metadata).toEqual({ bin: ['bin/x'] })
  })

  it.each([
    [{ type: ['library'] }, 'type must be a string'],
    [{ type: 'lib\u001b[1m' }, 'type must not contain control characters'],
    [{ 'target-dir': 'a/../../b' }, 'target-dir must not contain ".."'],
    [{ 'target-dir': 'a', autoload: { 'psr-4': { 'A\\': '' } } }, 'target-dir cannot be used together'],
    [{ bin: 'a/..' }, 'bin must not contain ".."'],
    [{ bin: ['a', '..\\b'] }, 'bin must not contain ".."'],
    [{ bin: 7 }, 'bin must be a list of strings'],
    [{ bin: [null] }, 'bin.0 must be a string'],
    [{ bin: ['a\nb'] }, 'bin.0 must not contain control characters'],
    [{ bin: ['a\u0000b'] }, 'bin.0 must not contain control characters'],
    [{ type: 'lib\ud800' }, 'type must not contain control characters'],
    [{ bin: ['a\u202e'] }, 'bin.0 must not contain control characters'],
    [{ autoload: { files: ['a\u2028'] } }, 'autoload.files.0 must not contain control characters'],
    [{ require: { 'a/b': 'dev-\ud800' } }, 'require.a/b must be a version constraint'],
    [{ conflict: { 'a/b': 'dev-\u202e' } }, 'conflict.a/b must be a version constraint'],
    [{ autoload: 'src/' }, 'autoload must be an object'],
    [{ autoload: ['src/'] }, 'autoload must be an object'],
    [{ autoload: { 'psr-4': ['src/'] } }, 'autoload.psr-4 must be an object'],
    [{ autoload: { 'psr-4': { 'A\\': { a: 'src/' } } } }, 'autoload.psr-4.A\\ must be a string'],
    [{ autoload: { 'psr-4': { 'A\\': [['src/']] } } }, 'autoload.psr-4.A\\ must be a string'],
    [
      { autoload: { 'psr-4': { 'A\u0001\\': 'src/' } } },
      'autoload.psr-4.A?\\ must not contain control characters',
    ],
    [{ autoload: { 'psr-0': ['src/'] } }, 'autoload.psr-0 must be an object'],
    [{ autoload: { 'psr-0': { 0: 'src/' } } }, 'autoload.psr-0.0 must be a namespace'],
    [{ autoload: { classmap: 'src/' } }, 'autoload.classmap must be a list of strings'],
    [{ autoload: { files: [['a.php']] } }, 'autoload.files.0 must be a string'],
    [{ 'include-path': 'lib/' }, 'include-path must be a list of strings'],
    [{ 'include-path': [1] }, 'include-path.0 must be a string'],
    [{ 'php-ext': ['x'] }, 'php-ext must be an object'],
  ])('%j is refused', (fields, reason) => {
    expect(refusal(() => read(fields))).toContain(`3/400 composer.json: ${reason}`)
  })

  it('has its type in lower case, as Composer has it', () => {
    expect(read({ type: 'Symfony-Bundle' })).toEqual({ metadata: { type: 'symfony-bundle' }, warnings: [] })
  })

  it('warns of values that Composer ignores', () => {
    expect(read({ type: 'a_b', autoload: { 'psr-2': 'src/' } })).toEqual({
      metadata: { type: 'a_b' },
      warnings: [expect.stringContaining('autoload.psr-2'), expect.stringContaining('type "a_b"')],
    })
  })

  it('of a plugin must have the fields that Composer requires', () => {
    const plugin = {
      type: 'Composer-Plugin',
      require: { 'Composer-Plugin-API': '^2' },
      extra: { class: 'A\\Plugin' },
    }
    expect(() => read(plugin)).not.toThrow()
    expect(() => read({ ...plugin, extra: { class: ['A', 'B'] } })).not.toThrow()
    expect(() => read({ type: 'composer-installer', extra: { class: 'A' } })).not.toThrow()
    for (const extra of [undefined, 'x', {}, { class: '' }, { class: [] }, { class: [1] }, { class: {} }]) {
      expect(refusal(() => read({ ...plugin, extra }))).toContain(
        'extra.class must name the class of a composer-plugin',
      )
    }
    expect(refusal(() => read({ ...plugin, require: {} }))).toContain(
      'require.composer-plugin-api is required for a composer-plugin',
    )
  })
})

describe('description', () => {
  it('is published as it was written, when it is valid', () => {
    const description = {
      description: 'Größe, 大きさ 👩‍👩‍👧',
      keywords: ['a', 'b c'],
      homepage: 'https://acme.example/?a=b#c',
      license: ['MIT', 'proprietary'],
      authors: [
        { name: 'A', email: 'a@acme.example', homepage: 'http://a.example', role: 'Dev' },
        { name: 'B' },
      ],
      support: {
        email: 'a@b.example',
        irc: 'irc://irc.example/acme',
        issues: 'https://x.example',
        rss: 'https://r.example',
      },
      funding: [{ type: 'github', url: 'https://github.com/sponsors/acme' }],
      time: '2026-01-02T03:04:05+00:00',
      extra: { a: { b: ['x\n\ty', 1, true, null, 1.5] } },
    }
    expect(read(description)).toEqual({ metadata: description, warnings: [] })
  })

  it.each([
    [{ description: ' red\r\nand\tblue ' }, { description: 'red and blue' }],
    [{ keywords: ['a', 7, true, null, '', ' b'] }, { keywords: ['a', '7', 'b'] }],
    [{ keywords: { a: 'x' } }, { keywords: ['x'] }],
    [{ license: ' MIT ' }, { license: ['MIT'] }],
    [{ license: ['MIT', ['x'], { a: 1 }, ''] }, { license: ['MIT'] }],
    [
      { authors: ['me', { name: 1 }, { role: 'x' }, { name: 'A', homepage: 'javascript:1', email: 'x' }] },
      { authors: [{ name: 'A' }] },
    ],
    [
      { authors: [{ name: 'A', secret: 'x', homepage: 'https://a.example' }] },
      { authors: [{ name: 'A', homepage: 'https://a.example' }] },
    ],
    [
      { support: { issues: 'ftp://x', source: 'https://s.example', other: 'at the pub ', docs: 7, 7: 'x' } },
      { support: { source: 'https://s.example', other: 'at the pub' } },
    ],
    [
      { funding: [{ type: 'x' }, { url: 'data:x' }, 'x', { url: 'https://f.example' }] },
      { funding: [{ url: 'https://f.example' }] },
    ],
    [{ time: '2026-01-02' }, { time: '2026-01-02T00:00:00+00:00' }],
    [{ time: '2026-01-02 03:04' }, { time: '2026-01-02T03:04:00+00:00' }],
    [{ time: '2026-01-02T03:04:05.678+02:00' }, { time: '2026-01-02T01:04:05+00:00' }],
    [{ extra: { a: 'x', 'branch-alias': { 'dev-main': '2.x-dev' } } }, { extra: { a: 'x' } }],
    [{ extra: { 'branch-alias': { 'dev-main': '2.x-dev' } } }, {}],
  ])('%j is cleaned', (fields, metadata) => {
    expect(read(fields)).toEqual({ metadata, warnings: [] })
  })

  it.each([
    [
      { description: '\u001b[31mred\u001b[0m\r\nand\u0000 \u009bblue\u202e ' },
      { description: 'red and blue' },
    ],
    [{ description: 'a\ud800b\u0007' }, { description: 'ab' }],
    [{ description: 'a\u2028b\u200e' }, { description: 'a b' }],
    [{ keywords: ['a', 7, true, null, '', '\u001b[1mb'] }, { keywords: ['a', '7', 'b'] }],
    [{ license: 'MIT\u2066' }, { license: ['MIT'] }],
    [{ authors: [{ name: 'A\u202e' }] }, { authors: [{ name: 'A' }] }],
    [
      { support: { chat: 'https://c.example', 'x\u2029': 'y\ud800' } },
      { support: { chat: 'https://c.example', x: 'y' } },
    ],
    [{ suggest: { 'a/b': 'x\u202ey' } }, { suggest: { 'a/b': 'xy' } }],
    [{ 'php-ext': { 'extension-name': 'a\u0000' } }, { 'php-ext': { 'extension-name': 'a' } }],
    [
      { extra: { a: '\u001b[31mx', 'k\u0000': 1, 'branch-alias': { 'dev-main': '2.x-dev' } } },
      { extra: { a: 'x', k: 1 } },
    ],
  ])('%j loses its control characters, with a warning', (fields, metadata) => {
    const [field] = Object.keys(metadata)
    expect(read(fields)).toEqual({
      metadata,
      warnings: [`${field} is published without its control characters`],
    })
  })

  it.each([
    ['description', 7],
    ['description', '\u0000'],
    ['keywords', 'a, b'],
    ['homepage', 'javascript:alert(1)'],
    ['homepage', 'https://'],
    ['homepage', 'https://a b'],
    ['homepage', 'https:\\\\x'],
    ['homepage', `https://${'x'.repeat(2100)}`],
    ['homepage', { x: 1 }],
    ['license', 7],
    ['authors', 'me'],
    ['support', ['https://x.example']],
    ['funding', 'https://x.example'],
    ['time', 'yesterday'],
    ['time', '2026-13-01'],
    ['time', '1700000000'],
    ['extra', 'x'],
    ['extra', ['x']],
  ])('%s %j is left out, with a warning', (field, value) => {
    expect(read({ [field]: value })).toEqual({
      metadata: {},
      warnings: [expect.stringContaining(`${field} is left out`)],
    })
  })

  it.each([
    [{ keywords: ['a', ['b']] }, 'keywords.1 must be a string'],
    [{ support: 'x' }, 'support must be an object'],
    [{ support: 7 }, 'support must be an object'],
    [{ time: 1700000000 }, 'time must be a string'],
  ])('%j is refused, for Composer would stop at it', (fields, reason) => {
    expect(refusal(() => read(fields))).toContain(reason)
  })

  it('contains no "__proto__", which is dangerous to copy', () => {
    const { metadata } = readText(
      '{"name":"acme/lib","extra":{"__proto__":{"x":1},"a":{"__proto__":1,"b":2}}}',
    )
    expect(JSON.stringify(metadata)).toBe('{"extra":{"a":{"b":2}}}')
  })
})

describe('the published metadata', () => {
  it('leaves out keys that the registry sets, and keys that only a root package needs', () => {
    const foreign = {
      ...{
        'notification-url': 'x',
        dist: {},
        source: { type: 'git' },
        version_normalized: '9',
        uid: 1,
        abandoned: true,
      },
      ...{
        'transport-options': {},
        'default-branch': true,
        'installation-source': 'dist',
        'published-time': 'x',
      },
      ...{
        repositories: [],
        config: {},
        scripts: {},
        'autoload-dev': {},
        'minimum-stability': 'dev',
        archive: {},
      },
      ...{ _comment: 'x', $schema: 'x', security: 'x' },
    }
    expect(read(foreign)).toEqual({ metadata: {}, warnings: [] })
  })

  it.each(['description', 'type', 'target-dir'])('never has "__unset" for %s', (field) => {
    expect(read({ [field]: '__unset' }).metadata).toEqual({})
  })

  it('never has "__unset" after cleaning either', () => {
    expect(read({ description: '__un\u0000set' }).metadata).toEqual({})
  })

  it('breaks no consumer, whatever was uploaded, and does not change when it is read again', () => {
    const known = new Set(
      [
        'description keywords homepage license authors support funding time extra type target-dir bin autoload',
        'include-path php-ext require require-dev conflict replace provide suggest',
      ].flatMap((names) => names.split(' ')),
    )
    let accepted = 0
    fc.assert(
      fc.property(manifests, (fields) => {
        const metadata = metadataOf(fields)
        if (metadata === null) return
        accepted++
        expect(Object.keys(metadata).filter((key) => !known.has(key))).toEqual([])
        expect(Object.values(metadata)).not.toContain('__unset')
        expect(JSON.stringify(metadata).replace(/\\[nt]/g, '')).not.toMatch(/\\u|\p{Cc}/u)
        expect(read(metadata).metadata).toEqual(metadata)
      }),
      { numRuns: 2000 },
    )
    expect(accepted).toBeGreaterThan(200)
  })

  it.skipIf(!hasComposer)('loads in Composer, whatever was uploaded (needs php and composer)', () => {
    const published = fc
      .sample(manifests, Number(process.env['COMPOSER_SAMPLES'] ?? 3000))
      .flatMap((fields) => {
        const metadata = metadataOf(fields)
        return metadata === null ? [] : [{ ...metadata, name: 'acme/lib', version: 'dev-1.0.0-foo' }]
      })
    const results = askComposer(published.map((version) => ['load', version]))
    expect(published.filter((_, i) => results[i] !== 'acme/lib')).toEqual([])
    expect(published.length).toBeGreaterThan(200)
  })
})

/** Returns the metadata of a manifest. Null when it is rejected. */
function metadataOf(fields: unknown): JsonObject | null {
  try {
    return read(fields).metadata
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal)
    return null
  }
}
