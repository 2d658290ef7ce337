import { describe, expect, it } from 'vitest'
import {
  allScopes,
  covers,
  coversAll,
  isApplicationScope,
  isScope,
  openidScopes,
  scopeDefinitions,
} from '../../src/domain/scopes.ts'
import { useDatabase } from '../support/database.ts'
import { areScopesInSql } from '../support/sql-rules.ts'

describe('the scopes of SPEC 2.4', () => {
  const database = useDatabase()

  it('are 25, with 43 permissions', () => {
    expect(scopeDefinitions).toHaveLength(25)
    expect(new Set(allScopes).size).toBe(allScopes.length)
  })

  it.each(['repo-svc-history', 'repo-basic-info', 'repo-security'])('have %s read-only', (name) => {
    expect([isScope(`${name}:r`), isScope(`${name}:rw`)]).toEqual([true, false])
  })

  it.each(['repo-delete', 'registry-package-delete', 'registry-delete'])(
    'have %s read-write only',
    (name) => {
      expect([isScope(`${name}:r`), isScope(`${name}:rw`)]).toEqual([false, true])
    },
  )

  it.each(['repo-code', 'repo-code:w', 'repo-code:R', 'REPO-CODE:r', 'repo-code:r ', '', 'constructor'])(
    'do not have %j',
    (scope) => expect(isScope(scope)).toBe(false),
  )

  it('are the same for the schema', async () => {
    const judge = (scopes: readonly string[]) => areScopesInSql(database.db, scopes)
    expect(await judge(allScopes)).toBe(true)
    for (const { name } of scopeDefinitions) {
      for (const scope of [`${name}:r`, `${name}:rw`, name]) expect(await judge([scope])).toBe(isScope(scope))
    }
    // Applications also have those of OpenID Connect (OPENID 243), and tokens do not.
    for (const scope of [...openidScopes, 'openid:r', 'profile:rw']) {
      expect([scope, await judge([scope])]).toEqual([scope, isApplicationScope(scope)])
      expect(isScope(scope)).toBe(false)
    }
    expect(await judge([])).toBe(false)
    expect(await judge(['repo-code:r', 'repo-code:r'])).toBe(false)
  })
})

describe('covers', () => {
  it.each([
    [['repo-code:rw'], 'repo-code:r', true],
    [['repo-code:rw'], 'repo-code:rw', true],
    [['repo-code:r'], 'repo-code:r', true],
    [['repo-code:r'], 'repo-code:rw', false],
    [['registry-package:rw'], 'registry-package-delete:rw', false],
    [[], 'repo-code:r', false],
  ])('of %j and %s says %j', (granted, asked, verdict) => {
    expect(covers(granted, asked)).toBe(verdict)
  })

  it('requires all of several scopes', () => {
    const granted = ['repo-code:rw', 'account-email:r']
    expect(coversAll(granted, ['repo-code:r', 'account-email:r'])).toBe(true)
    expect(coversAll(granted, ['repo-code:r', 'account-email:rw'])).toBe(false)
  })
})
