import { describe, expect, it } from 'vitest'
import { describeResourceScope, describeScopes } from '../../src/domain/scope-descriptions.ts'
import { allScopes } from '../../src/domain/scopes.ts'

const worded = (scopes: readonly string[]) => describeScopes(scopes).flatMap((group) => group.scopes)

describe('describeScopes', () => {
  it.each(allScopes)('describes %s (SPEC 2.4)', (scope) => {
    const [words, ...more] = worded([scope])
    expect(more).toEqual([])
    expect(words).toMatchObject({ scope, access: scope.endsWith(':rw') ? 'Read-write' : 'Read-only' })
    expect(words?.can).toMatch(/^[A-Z][^.]{5,}$/)
  })

  it('marks scopes that delete or manage, in words', () => {
    const marked = worded(allScopes.filter((scope) => scope.endsWith(':rw'))).filter(({ warning }) => warning)
    const dangerous = allScopes.filter((scope) => /-(?:delete|manage):rw$/.test(scope))
    expect(marked.map(({ scope }) => scope).toSorted()).toEqual(dangerous.toSorted())
    expect(worded(allScopes.filter((scope) => scope.endsWith(':r'))).some(({ warning }) => warning)).toBe(
      false,
    )
  })

  it('names a read-write scope once, also together with its read-only form', () => {
    expect(worded(['repo-code:r', 'repo-code:rw']).map(({ scope }) => scope)).toEqual(['repo-code:rw'])
  })

  it('keeps groups in order and leaves empty ones out', () => {
    const groups = describeScopes(['mission-manage:r', 'account-email:r', 'repo-code:r', 'account-profile:r'])
    expect(groups.map(({ title, scopes }) => [title, scopes.length])).toEqual([
      ['Code', 1],
      ['Your account', 2],
      ['Missions', 1],
    ])
  })
})

describe('describeResourceScope', () => {
  it('describes each (SPEC 2.1)', () => {
    expect(new Set((['all', 'public', 'specified'] as const).map(describeResourceScope)).size).toBe(3)
  })
})
