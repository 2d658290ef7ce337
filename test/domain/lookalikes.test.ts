import { describe, expect, it } from 'vitest'
import { mixesScripts, skeletonOf } from '../../src/domain/lookalikes.ts'

describe('skeletonOf', () => {
  it.each([
    ['Build Bot', 'build-bot', 'of another case and punctuation'],
    ['Build Bot', 'Вuild Воt', 'with Cyrillic letters'],
    ['Build Bot', 'Buιld Bοt', 'with Greek letters'],
    ['Build Bot', 'Bui1d B0t', 'with digits'],
    ['Build Bot', 'BuiId Bot', 'with a capital I for an l'],
    ['Build Bot', 'Ｂｕｉｌｄ Ｂｏｔ', 'with full width letters'],
    ['Cafe', 'Café', 'with an accent'],
    ['scope', 'ѕсоре', 'in Cyrillic letters only'],
  ])('is the same for %s and %s, a name %s', (one, other) => {
    expect(skeletonOf(other)).toBe(skeletonOf(one))
  })

  it.each([
    ['Build Bot', 'Build Bots'],
    ['Build Bot', 'Built Bot'],
    ['日本', '日木'],
  ])('differs for %s and %s', (one, other) => {
    expect(skeletonOf(other)).not.toBe(skeletonOf(one))
  })
})

describe('mixesScripts', () => {
  it.each(['Вuild Bot', 'Buιld', 'αБ'])('is true for a word with letters of two scripts: %s', (name) => {
    expect(mixesScripts(name)).toBe(true)
  })

  it.each(['Build Bot 2', 'Сборка', 'Сборка Bot', 'Ελλάδα', 'Café', 'PHP開発ツール', 'Bot-Сборка'])(
    'is false for %s',
    (name) => {
      expect(mixesScripts(name)).toBe(false)
    },
  )
})
