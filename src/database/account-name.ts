/**
 * SQL for the username of an account id: `deleted account` when the account was deleted, null for null. `username` is the
 * username of a joined account, if the statement joins it.
 */
export function accountName(
  id: string,
  username = `(select username from account where id = ${id})`,
): string {
  return `case when ${id} is not null then coalesce(${username}, 'deleted account') end`
}
