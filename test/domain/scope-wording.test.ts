import { describe, expect, it } from 'vitest'
import { wordResourceScope, wordScopes } from '../../src/domain/scope-wording.ts'
import { allScopes } from '../../src/domain/scopes.ts'

const worded = (scopes: readonly string[]) => wordScopes(scopes).flatMap((group) => group.scopes)

describe('wordScopes', () => {
  it.each(allScopes)('has words for %s (SPEC 2.4)', (scope) => {
    const [words, ...more] = worded([scope])
    expect(more).toEqual([])
    expect(words).toMatchObject({ scope, access: scope.endsWith(':rw') ? 'Read-write' : 'Read-only' })
    expect(words?.can).toMatch(/^[A-Z][^.]{5,}$/)
  })

  it('marks what deletes and what manages, in words', () => {
    const marked = worded(allScopes.filter((scope) => scope.endsWith(':rw'))).filter(({ warning }) => warning)
    const dangerous = allScopes.filter((scope) => /-(?:delete|manage):rw$/.test(scope))
    expect(marked.map(({ scope }) => scope).toSorted()).toEqual(dangerous.toSorted())
    expect(worded(allScopes.filter((scope) => scope.endsWith(':r'))).some(({ warning }) => warning)).toBe(
      false,
    )
  })

  it('names a read-write scope once, also when its read-only one stands beside it', () => {
    expect(worded(['repo-code:r', 'repo-code:rw']).map(({ scope }) => scope)).toEqual(['repo-code:rw'])
  })

  it('keeps groups in order and leaves empty ones out', () => {
    const groups = wordScopes(['mission-manage:r', 'account-email:r', 'repo-code:r', 'account-profile:r'])
    expect(groups.map(({ title, scopes }) => [title, scopes.length])).toEqual([
      ['Code', 1],
      ['Your account', 2],
      ['Missions', 1],
    ])
  })
})

describe('wordResourceScope', () => {
  it('has words for each (SPEC 2.1)', () => {
    expect(new Set((['all', 'public', 'specified'] as const).map(wordResourceScope)).size).toBe(3)
  })
})
