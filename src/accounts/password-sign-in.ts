import type { Config } from '../config.ts'

/** Returns whether an account may use its password: `PASSWORD_SIGN_IN`. Commands do not check it. */
export function mayUsePassword(
  { passwordSignIn }: Pick<Config, 'passwordSignIn'>,
  isAdmin: boolean,
): boolean {
  return passwordSignIn === 'on' || (passwordSignIn === 'admins' && isAdmin)
}

/** What people read who may not use a password. */
export function noPasswordHere({ passwordSignIn }: Pick<Config, 'passwordSignIn'>): string {
  return passwordSignIn === 'admins'
    ? 'Only administrators use a password here. Sign in another way.'
    : 'Passwords are not used here. Sign in another way.'
}
