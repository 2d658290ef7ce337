import fc from 'fast-check'

const text = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom('a', 'src/', 'bin/x', 'MIT', 'https://x.example', 'a@b.example', '2026-01-02'),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '',
      '__unset',
      '__proto__',
      '..',
      'a/../b',
      '\u001b[31mred',
      'a\nb',
      '\ud800',
      '\u202e',
    ),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }) },
)
const key = fc.oneof(
  fc.constantFrom(
    'name',
    'email',
    'homepage',
    'url',
    'type',
    'issues',
    'class',
    'psr-4',
    'classmap',
    'files',
    'branch-alias',
  ),
  fc.constantFrom('Acme\\', '', '0', '7', 'constructor', '__proto__'),
  text,
)
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    text,
    fc.constantFrom(null, true, false, 0, 1, 1.5),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(key, tie('value'), { maxKeys: 3 }),
  ),
}))

const target = fc.constantFrom(
  'php',
  'ext-json',
  'acme/other',
  'Acme/Lib',
  'a/b',
  'foo',
  'a b',
  '../x',
  'acme/\u212ait',
)
const constraint = fc.constantFrom('^1.0', '*', 'self.version', '1.0 || 2.0', 'dev-x', 'nope!', '', '>=1 <2')
const links = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.dictionary(fc.constantFrom('php', 'a/b', 'acme/other'), fc.constantFrom('^1.0', '*')),
  },
  { weight: 1, arbitrary: fc.dictionary(target, constraint, { maxKeys: 2 }) },
)
const namespaces = fc.dictionary(
  fc.constantFrom('Acme\\', '', 'B\\C\\', 'D', '0'),
  fc.oneof(text, fc.array(text)),
  {
    maxKeys: 2,
  },
)
const autoload = fc.record(
  { 'psr-4': namespaces, 'psr-0': namespaces, classmap: fc.array(text), files: fc.array(text) },
  { requiredKeys: [] },
)
const texts = fc.array(text, { maxLength: 3 })
const record = (...keys: string[]) =>
  fc.dictionary(fc.constantFrom(...keys), fc.oneof(text, value), { maxKeys: 3 })

const mostlySound = {
  ...{ description: text, homepage: text, type: text, time: text, 'target-dir': text },
  ...{ keywords: texts, license: fc.oneof(text, texts), bin: fc.oneof(text, texts), 'include-path': texts },
  ...{
    require: links,
    'require-dev': links,
    conflict: links,
    replace: links,
    provide: links,
    suggest: links,
  },
  authors: fc.array(record('name', 'email', 'homepage', 'role')),
  support: record('email', 'issues', 'irc', 'source', 'x'),
  funding: fc.array(record('type', 'url')),
  autoload,
  ...{ extra: record('a', 'branch-alias', 'class'), 'php-ext': record('a', 'extension-name') },
  ...{ dist: value, source: value, scripts: value, abandoned: value },
}
const fields = Object.keys(mostlySound)

/** Fields of a composer.json besides the name: few of them, mostly with the right type, rarely sorted. */
export const manifests = fc
  .tuple(
    fc.array(fc.constantFrom(...fields), { maxLength: 4 }),
    fc.record(mostlySound),
    fc.oneof(
      { weight: 4, arbitrary: fc.constant({}) },
      { weight: 1, arbitrary: fc.dictionary(fc.constantFrom(...fields), value, { maxKeys: 1 }) },
    ),
  )
  .map(([names, sound, odd]) => ({
    ...Object.fromEntries(Object.entries(sound).filter(([name]) => names.includes(name))),
    ...odd,
  }))
