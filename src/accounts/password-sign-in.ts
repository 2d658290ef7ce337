import type { Config } from '../config.ts'

/** Returns whether `PASSWORD_SIGN_IN` lets an account use its password. Commands do not check it. */
export function mayUsePassword(
  { passwordSignIn }: Pick<Config, 'passwordSignIn'>,
  isAdmin: boolean,
): boolean {
  return passwordSignIn === 'on' || (passwordSignIn === 'admins' && isAdmin)
}

/** Returns the message for people who may not use a password. */
export function noPasswordHere({ passwordSignIn }: Pick<Config, 'passwordSignIn'>): string {
  return passwordSignIn === 'admins'
    ? 'Only administrators can sign in with a password. Sign in another way.'
    : 'You cannot sign in with a password here. Sign in another way.'
}
