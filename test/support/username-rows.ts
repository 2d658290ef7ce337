import type { Queryable } from '../../src/database/database.ts'

/** Gives an account another name in one statement, without the checks of the product. */
export async function setUsername(db: Queryable, account: { id: string }, username: string): Promise<void> {
  await db.query('update account set username = $2 where id = $1', [account.id, username])
}

/** Ends the reservations of former names: of all, or of one. */
export async function endReservations(db: Queryable, username: string | null = null): Promise<void> {
  await db.query(
    `update reserved_username set reserved_until = now() - interval '1 second'
      where $1::text is null or username = $1`,
    [username],
  )
}

/** Deletes an account and reserves its name in one statement. */
export async function deleteAndReserve(db: Queryable, username: string): Promise<void> {
  await db.query(
    `with gone as (delete from account where username = $1)
     insert into reserved_username values ($1, now() + interval '1 day')`,
    [username],
  )
}
