import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { changeAccount, insertAccount, type NewAccount } from '../../src/accounts/accounts.ts'
import { operator } from '../../src/domain/principal.ts'
import { storedAccount } from '../support/account-rows.ts'
import { aName, anAccount } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'

describe('an account with a malformed value', () => {
  const database = useDatabase()
  const passwordHash = '$argon2id$v=19$m=19456,t=2,p=1$c29tZSBzYWx0$c29tZSBoYXNo'

  const errorOf = (work: Promise<unknown>) =>
    work.then(
      () => null,
      (error: unknown) => error as pg.DatabaseError,
    )

  const malformed: Partial<NewAccount>[] = [
    ...['', 'Ann', 'a b', '-a', 'a-', 'a..b', 'a\n', 'é', 'a'.repeat(40)].map((username) => ({ username })),
    ...['n'.repeat(101), 'a\nb', 'a\u0085b', 'a\u202eb', 'a\u2028b'].map((displayName) => ({ displayName })),
    ...['', 'ann', '@', 'a@', '@b', 'a@b@c', 'a b@c', 'a@b\r\nBcc: c@d', `${'a'.repeat(250)}@b.cd`].map(
      (email) => ({ email }),
    ),
  ]

  it('is refused by the name of the same rule as in the schema, and no error contains the password’s hash', async () => {
    const { db } = database
    const known = await anAccount(db)
    for (const values of malformed) {
      const account = { username: aName('ann'), displayName: '', email: null, isAdmin: false, ...values }
      const bySchema = await errorOf(
        db.query(
          'insert into account (username, display_name, email, password_hash) values ($1, $2, $3, $4)',
          [account.username, account.displayName, account.email, passwordHash],
        ),
      )
      expect(bySchema?.detail).toContain('$argon2id')
      for (const refused of [
        await errorOf(insertAccount(db, operator, { ...account, passwordHash })),
        await errorOf(changeAccount(db, operator, known.id, values)),
      ]) {
        expect(refused).toBeInstanceOf(pg.DatabaseError)
        expect([values, refused?.code, refused?.constraint]).toEqual([values, '23514', bySchema?.constraint])
        expect(JSON.stringify([refused, refused?.message])).not.toContain('argon2id')
      }
    }
  })

  it('is accepted with every value that the schema accepts', async () => {
    const { db } = database
    const values = {
      username: 'a'.repeat(39),
      displayName: '🤷'.repeat(100),
      email: `${'é'.repeat(249)}@b.cd`,
    }
    const id = await insertAccount(db, operator, { ...values, isAdmin: true, passwordHash })
    await changeAccount(db, operator, id, { username: 'a-b_c.d', displayName: '', email: null })
    expect(await storedAccount(db, { id })).toMatchObject({ username: 'a-b_c.d', email: null, isAdmin: true })
  })
})
