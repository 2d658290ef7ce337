import { describe, expect, it } from 'vitest'
import { numberedUsername, readPerson } from '../../../src/accounts/single-sign-on/person.ts'

const groupMap = [
  { providerGroup: 'developers', group: 'acme', role: 'developer' as const },
  { providerGroup: 'admins', group: 'acme', role: 'admin' as const },
]
const read = (idToken: object, userInfo: object = {}, groupsClaim = 'groups') =>
  readPerson(
    { groupsClaim, groupMap },
    { issuer: 'https://id.example', subject: 'eve' },
    { ...idToken },
    { ...userInfo },
  )

describe('readPerson', () => {
  it.each([
    [{ preferred_username: 'Eve.Smith' }, 'eve.smith'],
    [{ preferred_username: 'eve@acme.example' }, 'eve'],
    [{ preferred_username: 'ACME\\eve' }, 'acme-eve'],
    [{ preferred_username: 'Zoë Straße' }, 'zoe-strasse'],
    [{ preferred_username: '..eve__-x..' }, 'eve-x'],
    [{ preferred_username: '李', email: 'li@acme.example' }, 'li'],
    [{ preferred_username: '@', nickname: 'nick' }, 'nick'],
    [{ preferred_username: `${'x'.repeat(38)}.y` }, 'x'.repeat(38)],
    [{ preferred_username: ['eve'], name: 'Eve Smith' }, 'eve-smith'],
    [{}, 'user'],
  ])('makes of %j the username %s', (claims, username) => {
    expect(read(claims).username).toBe(username)
  })

  it.each([
    [{ email: 'a@b.example', email_verified: true }, {}, 'a@b.example', true],
    [{ email: 'a@b.example', email_verified: 'true' }, {}, 'a@b.example', true],
    [{ email: 'a@b.example', email_verified: 'false' }, {}, 'a@b.example', false],
    [{ email: 'a@b.example', email_verified: 1 }, {}, 'a@b.example', false],
    [{ email: 'a@b.example' }, {}, 'a@b.example', false],
    [{ email: 'a@b.example' }, { email_verified: true }, 'a@b.example', false],
    [{ email_verified: true }, { email: 'a@b.example' }, 'a@b.example', false],
    [{ email: 'a@b.example' }, { email: 'c@d.example', email_verified: true }, 'c@d.example', true],
    [{ email: 'no address', email_verified: true }, {}, null, false],
    [{ email: `${'x'.repeat(250)}@b.example`, email_verified: true }, {}, null, false],
  ])('reads the email of %j and UserInfo %j', (idToken, userInfo, email, isEmailVerified) => {
    expect(read(idToken, userInfo)).toMatchObject({ email, isEmailVerified })
  })

  it.each([
    [{ groups: ['developers', 'others', 7, null] }, 'groups', ['developers']],
    [{ groups: 'admins' }, 'groups', ['admins']],
    [{ groups: { developers: true } }, 'groups', []],
    [{ realm_access: { roles: ['admins'] } }, 'realm_access.roles', ['admins']],
    [{ 'https://acme.example/groups': ['admins'] }, 'https://acme.example/groups', ['admins']],
    [{}, '__proto__.constructor', []],
    [{}, 'groups', []],
    // Entra ID sends this when there are too many groups.
    [{ _claim_names: { groups: 'src1' } }, 'groups', null],
  ])('reads the groups of %j by %s', (claims, claim, groups) => {
    expect(read(claims, {}, claim).groups).toEqual(groups)
  })

  it('keeps a name that pages and terminals can show', () => {
    expect(read({ name: ` Eve\u202E\u0007 ${'x'.repeat(200)}` }).displayName).toBe(`Eve ${'x'.repeat(96)}`)
  })
})

describe('numberedUsername', () => {
  it.each([
    ['eve', 2, 'eve-2'],
    ['x'.repeat(39), 12, `${'x'.repeat(36)}-12`],
    [`${'x'.repeat(36)}.yz`, 2, `${'x'.repeat(36)}-2`],
  ])('%s, %s', (username, number, numbered) => {
    expect(numberedUsername(username, number)).toBe(numbered)
  })
})
