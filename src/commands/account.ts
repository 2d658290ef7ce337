import { Command, Option } from 'commander'
import { insertAccount } from '../accounts/accounts.ts'
import { findPasswordProblem, hashPassword, maxPasswordBytes } from '../accounts/passwords.ts'
import { makePassword } from '../domain/secrets.ts'
import { jsonOption } from './options.ts'
import { answer, withDatabase } from './run.ts'

interface CreateOptions {
  email?: string
  name?: string
  admin?: boolean
  password?: string
  passwordStdin?: boolean
  json?: boolean
}

/** `svc account …` */
export function accountCommand(): Command {
  return new Command('account').description('People who sign in.').addCommand(createCommand())
}

function createCommand(): Command {
  return new Command('create')
    .description('Make an account. Without a password it gets one, which is printed once.')
    .argument('<username>', 'lower-case letters and digits, with single . _ or - between them')
    .option('--email <address>', 'email address')
    .option('--name <name>', 'display name')
    .option('--admin', 'administrates the service: counts as admin of every group and repository')
    .addOption(
      new Option(
        '--password <password>',
        'at least 12 characters; other users of this machine may see it',
      ).conflicts('passwordStdin'),
    )
    .option('--password-stdin', 'read the password from the first line of standard input')
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc account create ann --email ann@example.com --name "Ann Lee"')
    .action(createAccount)
}

async function createAccount(username: string, options: CreateOptions): Promise<void> {
  const password = await choosePassword(username, options)
  const passwordHash = await hashPassword(password)
  await withDatabase((db) =>
    insertAccount(db, {
      username,
      displayName: options.name ?? '',
      email: options.email ?? null,
      isAdmin: options.admin ?? false,
      passwordHash,
    }),
  )
  const isGiven = options.password !== undefined || options.passwordStdin
  const text = `The account ${username} is there.${isGiven ? '' : ` Its password, shown only now: ${password}`}`
  answer(options, { username, password }, text)
}

async function choosePassword(username: string, { password, passwordStdin }: CreateOptions): Promise<string> {
  const given = passwordStdin ? await readLine() : password
  if (given === undefined) return makePassword()
  const problem = findPasswordProblem(given, username)
  if (problem !== null) throw new Error(problem)
  return given
}

/** The first line of standard input, without its end. */
async function readLine(): Promise<string> {
  let text = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk
    if (text.includes('\n') || text.length > maxPasswordBytes) break
  }
  return text.split(/\r?\n/, 1)[0] ?? ''
}
