import { describe, expect, it } from 'vitest'
import { updateAccount } from '../../src/accounts/account-lifecycle.ts'
import { brokenConstraint } from '../../src/database/errors.ts'
import { operator } from '../../src/domain/principal.ts'
import { storedAccount } from '../support/account-rows.ts'
import { aName, anAccount, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { open } from '../support/browse.ts'

const t = useApp()

/** Finds what an update can change of an account. */
async function read(id: string) {
  const { username, displayName, isDisabled } = (await storedAccount(t.db, { id })) ?? expect.fail()
  return { username, displayName, isDisabled }
}

describe('an update of an account', () => {
  it('changes the details and disables the account together', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    await updateAccount(t.db, operator, account.id, { displayName: 'Ann', isDisabled: true })
    expect(await read(account.id)).toMatchObject({ displayName: 'Ann', isDisabled: true })
    expect((await open(t, '/settings/account', cookie)).statusCode).toBe(303)
    await updateAccount(t.db, operator, account.id, { isDisabled: false })
    expect(await read(account.id)).toMatchObject({ displayName: 'Ann', isDisabled: false })
  })

  it('changes nothing when one of its changes is refused', async () => {
    const other = await anAccount(t.db)
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const before = await read(account.id)
    const changes = { displayName: 'Ann', isDisabled: true, username: other.username }
    const refused = await updateAccount(t.db, operator, account.id, changes).catch(brokenConstraint)
    expect(refused).toBe('username_is_taken')
    expect(await read(account.id)).toEqual(before)
    expect((await open(t, '/settings/account', cookie)).statusCode).toBe(200)
  })

  it('takes a reserved username only when it is released', async () => {
    const former = await anAccount(t.db)
    const account = await anAccount(t.db)
    await updateAccount(t.db, operator, former.id, { username: aName('later') })
    const changes = { username: former.username }
    const refused = await updateAccount(t.db, operator, account.id, changes).catch(brokenConstraint)
    expect(refused).toBe('username_is_reserved')
    expect(await read(account.id)).toMatchObject({ username: account.username })
    await updateAccount(t.db, operator, account.id, { ...changes, isReleased: true })
    expect(await read(account.id)).toMatchObject({ username: former.username })
  })
})
