import fc from 'fast-check'

/** One of the given texts. */
const pick = (...texts: string[]) => fc.constantFrom(...texts)
const join = (...parts: fc.Arbitrary<string>[]) => fc.tuple(...parts).map((texts) => texts.join(''))
const maybe = (part: fc.Arbitrary<string>) => fc.oneof(fc.constant(''), part)
const repeat = (part: fc.Arbitrary<string>, minLength: number, maxLength: number, separator = '') =>
  fc.array(part, { minLength, maxLength }).map((texts) => texts.join(separator))

const number = fc.oneof(
  { weight: 6, arbitrary: pick('0', '1', '2', '10', '20') },
  { weight: 1, arbitrary: pick('00', '01', '2026', '99999', '100000', '9999999', '20260101') },
  { weight: 1, arbitrary: fc.bigInt(0n, 10n ** 22n).map(String) },
)
const prefix = pick('', '', '', '', 'v', 'V', 'vv', '=')
const word = pick(
  ...['stable', 'Stable', 'STABLE', 'beta', 'b', 'B', 'RC', 'rc', 'alpha', 'Alpha', 'a', 'patch', 'pl', 'PL'],
  ...['p', 'dev', 'DEV', 'foo', 'pre', 'snapshot', 'x', 'as'],
)
const separator = pick('', '-', '-', '-', '.', '_', '--', '+')
const modifiers = repeat(join(separator, word, maybe(join(pick('', '.', '-'), number))), 0, 3)
const build = join(
  pick('+', '+', '+-', '++'),
  pick('b1', 'dev', '-dev', '20130313144700', 'a.b-c', '1+2', ''),
)
const dotted = repeat(number, 1, 5, '.')
const digits = (length: number) =>
  fc.integer({ min: 0, max: 10 ** length - 1 }).map((n) => `${n}`.padStart(length, '0'))
const dates = join(
  digits(4),
  repeat(join(pick('', '.', ':', '-'), fc.oneof(digits(2), digits(2), digits(1), digits(3))), 1, 9),
)
const wildcards = join(maybe(join(dotted, fc.constant('.'))), repeat(pick('x', 'X', '*'), 1, 3, '.'))
const branches = fc.oneof(
  join(
    pick('dev-', 'DEV-', 'Dev-'),
    pick('main', 'x', '1.x', 'feature/a-b', 'a b', '', '#', 'a,b', 'é', '1.0.0-foo'),
  ),
  join(fc.oneof(wildcards, dotted), pick('-dev', '.dev', 'dev', '-DEV', '--dev', ' -dev')),
  pick('master', 'trunk', 'default', 'Master', 'foo-dev', 'a/b.c-dev', 'a_b-dev', '-dev', 'latest', 'dev'),
)
const flag = join(
  pick('', '', ' '),
  pick('@dev', '@DEV', '@stable', '@rc', '@RC', '@alpha', '@beta', '@foo', '@'),
)
const reference = pick('#a1b2c3', '#', '##', '#a#b', '#a b', '#é')

const plain = fc.oneof(
  { weight: 6, arbitrary: join(prefix, dotted, modifiers, maybe(build)) },
  { weight: 2, arbitrary: join(prefix, dates, modifiers, maybe(build)) },
  { weight: 1, arbitrary: join(prefix, wildcards) },
  { weight: 2, arbitrary: branches },
)
const decorated = join(
  plain,
  fc.oneof(
    { weight: 4, arbitrary: fc.constant('') },
    { weight: 1, arbitrary: flag },
    { weight: 1, arbitrary: reference },
  ),
  fc.oneof({ weight: 4, arbitrary: fc.constant('') }, { weight: 1, arbitrary: flag }),
  fc.oneof(
    { weight: 9, arbitrary: fc.constant('') },
    { weight: 1, arbitrary: join(pick(' as ', '  as  ', ' AS ', ' as'), plain) },
  ),
)

/** Inserts, deletes, doubles or replaces up to three characters. */
function mutated(text: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const change = fc.record({
    at: fc.nat(60),
    cut: fc.nat(2),
    insert: fc.oneof(
      pick(
        ...Array.from(' ,|@#*^~<>=!v.x-+_/0'),
        '  ',
        '||',
        ' - ',
        '.dev',
        'as',
        '\u00a0',
        '\u2028',
        '\ud83d\ude00',
        'ſ',
        '\u212a',
      ),
      fc.string({ maxLength: 2 }),
    ),
  })
  return fc.tuple(text, fc.array(change, { maxLength: 3 })).map(([original, changes]) =>
    changes.reduce((t, { at, cut, insert }) => {
      const place = at % (t.length + 1)
      return (t.slice(0, place) + insert + t.slice(place + cut)).replace(/\p{Cs}/gu, '')
    }, original),
  )
}

/** Strings similar to Composer versions. Many are valid, most are almost valid. */
export const versionLike = fc.oneof(
  { weight: 3, arbitrary: plain },
  { weight: 2, arbitrary: decorated },
  { weight: 2, arbitrary: mutated(decorated) },
  { weight: 1, arbitrary: join(pick('', ' ', '  '), plain, pick('', ' ')) },
)

const tidyNumber = pick('0', '1', '2', '10', '99999')
const tidy = join(
  pick('', '', '', 'v'),
  repeat(tidyNumber, 1, 4, '.'),
  pick('', '', '', '-dev', '-beta', '-b2', '-alpha.1', '-RC1', '-p1', '-stable', '.x-dev', '-rc.1-dev'),
  pick('', '', '', '', '+b1', '@dev', '@RC', '@beta'),
)
const operand = fc.oneof(
  { weight: 6, arbitrary: tidy },
  { weight: 1, arbitrary: decorated },
  { weight: 1, arbitrary: join(dates, pick('', '-dev')) },
  { weight: 1, arbitrary: join(wildcards, pick('', '', '@dev')) },
)
const operator = fc.oneof(
  { weight: 8, arbitrary: pick('', '', '^', '^', '~', '~', '>', '>=', '<', '<=', '=', '==', '!=', '<>') },
  { weight: 1, arbitrary: pick('~>', '^^', '=>', '!', '~ ', '^ ', '>= ', '<  ') },
)
const single = fc.oneof(
  { weight: 9, arbitrary: join(operator, operand) },
  { weight: 3, arbitrary: join(operand, pick(' - ', ' - ', '  -  ', ' -', '- ', '-', ' – '), operand) },
  { weight: 1, arbitrary: branches },
  { weight: 1, arbitrary: flag },
)
const conjunction = fc
  .array(single, { minLength: 2, maxLength: 3 })
  .chain((parts) => pick(' ', ',', ', ', ' , ', '  ', ',,', ' ,').map((glue) => parts.join(glue)))
const disjunction = fc
  .array(fc.oneof(single, single, conjunction), { minLength: 1, maxLength: 3 })
  .chain((parts) => pick('|', '||', ' || ', ' | ', '|||', ' ||').map((glue) => parts.join(glue)))

/** Strings similar to Composer constraints. Many are valid, most are almost valid. */
export const constraintLike = fc.oneof(
  { weight: 2, arbitrary: single },
  { weight: 3, arbitrary: disjunction },
  { weight: 2, arbitrary: mutated(disjunction) },
)

const identifier = fc.oneof(
  word,
  number.filter((n) => n === '0' || !n.startsWith('0')),
  fc.stringMatching(/^\d*[a-zA-Z-][0-9a-zA-Z-]*$/),
)
const identifiers = (mark: string) => repeat(identifier, 1, 3, '.').map((text) => mark + text)

/** Versions by SemVer 2.0.0. */
export const semvers = join(
  repeat(
    number.filter((n) => n === '0' || !n.startsWith('0')),
    3,
    3,
    '.',
  ),
  maybe(identifiers('-')),
  maybe(identifiers('+')),
)
