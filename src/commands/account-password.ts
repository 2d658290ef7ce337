import { Command, Option } from 'commander'
import { type Ended, resetPassword } from '../accounts/account-lifecycle.ts'
import {
  makeVerificationToken,
  verificationLifetimeSeconds,
  verificationUrl,
} from '../accounts/email-verifications.ts'
import { makeResetToken, resetLifetimeSeconds, resetUrl } from '../accounts/password-resets.ts'
import { findPasswordProblem, maxPasswordBytes } from '../accounts/passwords.ts'
import { formatCount } from '../domain/formats.ts'
import { operator } from '../domain/principal.ts'
import { makePassword } from '../domain/secrets.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption } from './options.ts'
import { printResult, readLine, theAccount, withDatabase } from './run.ts'

/** The options for the password of an account. */
export interface PasswordOptions extends JsonOptions {
  password?: string
  passwordStdin?: boolean
}

/** Makes a command `svc account <verb> <username>`. */
export function onAccount(verb: string, description: string): Command {
  return new Command(verb)
    .description(description)
    .argument('<username>', 'as svc account list shows it')
    .addOption(jsonOption())
}

/** `svc account set-password` */
export function setPasswordCommand(): Command {
  return onAccount(
    'set-password',
    'Set the password and end all sessions. Without a password it generates and prints one.',
  )
    .addOption(passwordOption())
    .addOption(passwordStdinOption())
    .addOption(endEverythingOption())
    .addOption(forceOption())
    .action(async (username: string, options: PasswordOptions & EndingOptions) => {
      const password = await choosePassword(username, options)
      const ended = await withDatabase(async (db) => {
        const { id } = await theAccount(db, username)
        return resetPassword(db, operator, id, password, await confirmEnding(username, options))
      })
      const text = `Password of ${username} changed.${tellEnded(ended)}${tellPassword(options, password)}`
      printResult(options, { username, password, ...describeEnded(ended) }, text)
    })
}

/** `svc account reset-link` */
export function resetLinkCommand(): Command {
  return onAccount(
    'reset-link',
    'Make a link that sets a new password: it works once, for an hour. Give it to the person over a channel that you trust.',
  ).action(async (username: string, options: JsonOptions) => {
    const url = await withDatabase(async (db, config) => {
      const { id } = await theAccount(db, username)
      const token = await makeResetToken(db, operator, id)
      if (token === null) throw new Error(`${username} is disabled.`)
      return resetUrl(config, token)
    })
    printResult(options, { username, url, expires_in: resetLifetimeSeconds }, url)
  })
}

/** `svc account verification-link` */
export function verificationLinkCommand(): Command {
  return onAccount(
    'verification-link',
    'Make a link that verifies the email of an account: it works once, for 3 days.',
  ).action(async (username: string, options: JsonOptions) => {
    const url = await withDatabase(async (db, config) => {
      const made = await makeVerificationToken(db, (await theAccount(db, username)).id)
      if (!made) throw new Error(`${username} has no email to verify, or is disabled.`)
      return verificationUrl(config, made.token)
    })
    printResult(options, { username, url, expires_in: verificationLifetimeSeconds }, url)
  })
}

/** The option of commands that can end everything of an account. */
export interface EndingOptions extends ForceOptions {
  endEverything?: boolean
}

/** `--end-everything` */
export function endEverythingOption(): Option {
  const description =
    'also revoke its tokens and applications, and the deploy tokens and invitations that it made, for good'
  return new Option('--end-everything', description)
}

/** Returns whether `--end-everything` is given, after a confirmation. */
export async function confirmEnding(username: string, options: EndingOptions): Promise<boolean> {
  if (!options.endEverything) return false
  const effect = `This ends all sessions, tokens and applications of ${username} for good, and what they made for others.`
  await confirmInTerminal(effect, username, options)
  return true
}

/** Returns what was ended, for `--json`. Empty when only sessions ended. */
export function describeEnded(ended: Ended | null): Record<string, unknown> {
  if (ended === null) return {}
  const { deployTokens: deploy_tokens, ...others } = ended
  return { ended: { ...others, deploy_tokens } }
}

/** Returns a sentence with what was ended. Empty when only sessions ended. */
export function tellEnded(ended: Ended | null): string {
  if (ended === null) return ''
  const { sessions, tokens, applications, deployTokens, invitations } = ended
  return ` Ended for good: ${formatCount(sessions, 'session')}, ${formatCount(tokens, 'token')}, ${formatCount(applications, 'application')}, ${formatCount(deployTokens, 'deploy token')}, ${formatCount(invitations, 'invitation')}.`
}

/** `--password` */
export function passwordOption(): Option {
  const description = 'at least 12 characters; other users of this machine may see it'
  return new Option('--password <password>', description).conflicts('passwordStdin')
}

/** `--password-stdin` */
export function passwordStdinOption(): Option {
  return new Option('--password-stdin', 'read the password from the first line of standard input')
}

/** Returns a sentence with the generated password. Empty when the password was given. */
export function tellPassword({ password, passwordStdin }: PasswordOptions, made: string): string {
  return password !== undefined || passwordStdin ? '' : ` Its password, shown only once: ${made}`
}

/** Returns the password from the options, or a generated one. Throws when the given password is not acceptable. */
export async function choosePassword(
  username: string,
  { password, passwordStdin }: PasswordOptions,
): Promise<string> {
  const given = passwordStdin ? await readLine(maxPasswordBytes) : password
  if (given === undefined) return makePassword()
  const problem = findPasswordProblem(given, username)
  if (problem !== null) throw new Error(problem)
  return given
}
