import type { Config } from '../config.ts'
import type { Mail } from '../mail/mail.ts'

/** The recipient of a mail to an account. */
export function personOf(account: { username: string; displayName: string; email: string }): Mail['to'] {
  return { address: account.email, name: account.displayName || account.username }
}

/** Returns the name of this server in mails: host and port of its public URL. */
export function siteOf({ baseUrl }: Pick<Config, 'baseUrl'>): string {
  return new URL(baseUrl).host
}
