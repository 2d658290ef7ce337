import { Command, InvalidArgumentError, Option } from 'commander'
import { type ListedInvitation, listInvitations, withdrawInvitation } from '../accounts/invitations.ts'
import { explainNoNewAccounts, invite } from '../accounts/invite.ts'
import { type Role, roles } from '../domain/permissions.ts'
import { operator } from '../domain/principal.ts'
import { readRowId } from '../domain/row-id.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theGroup, withDatabase } from './run.ts'

interface InviteOptions extends JsonOptions {
  email?: string
  role?: Role
}

const explainLink =
  'With --email and SMTP_URL the link is sent by mail. Otherwise it is printed once. It works once, for 7 days.'

/** `svc account invite` */
export function inviteAccountCommand(): Command {
  return new Command('invite')
    .description(`Invite somebody to make an account. ${explainLink}`)
    .addOption(emailOption())
    .addOption(jsonOption())
    .action((options: InviteOptions) => inviteSomebody(null, options))
}

/** `svc member invite` */
export function inviteMemberCommand(): Command {
  return new Command('invite')
    .description(`Invite somebody to a group. They join with a new or an existing account. ${explainLink}`)
    .argument('<group>', 'the group')
    .addOption(new Option('--role <role>', 'the role in the group').choices(roles).makeOptionMandatory())
    .addOption(emailOption())
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc member invite acme --role developer --email ann@example.com')
    .action(inviteSomebody)
}

function emailOption(): Option {
  return new Option('--email <address>', 'the email of the person to invite')
}

async function inviteSomebody(
  group: string | null,
  { email, role, ...options }: InviteOptions,
): Promise<void> {
  const made = await withDatabase(async (db, config) => {
    const obstacle = group === null ? explainNoNewAccounts(config) : null
    if (obstacle !== null) {
      throw new Error(`${obstacle}.${config.signUp === 'closed' ? ' Use svc account create.' : ''}`)
    }
    const target = group !== null && role ? { groupId: (await theGroup(db, group)).id, role } : null
    return invite(db, config, operator, { email: email ?? null, target })
  })
  printResult(
    options,
    {
      id: Number(made.id),
      email: email ?? null,
      group,
      role: role ?? null,
      url: made.url,
      expires_at: made.expiresAt,
    },
    made.url ?? `The mail to ${email} is queued.`,
  )
}

/** `svc invitation …` */
export function invitationCommand(): Command {
  return new Command('invitation')
    .description('Open invitations. Make them with svc account invite and svc member invite.')
    .addCommand(listCommand())
    .addCommand(withdrawCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the invitations that are neither accepted nor withdrawn, newest first.')
    .argument('[group]', 'only invitations to this group')
    .action((name: string | undefined, options: ListOptions) =>
      withDatabase(async (db) => {
        const group = name === undefined ? null : await theGroup(db, name)
        await printList<ListedInvitation>(options, {
          list: (part) => listInvitations(db, group?.id ?? null, part),
          keyOf: ({ id }) => id,
          describe: (one) => ({
            id: Number(one.id),
            email: one.email,
            group: one.group,
            role: one.role,
            invited_by: one.inviter,
            by_mail: one.isSentByMail,
            created_at: one.createdAt,
            expires_at: one.expiresAt,
            expired: one.isExpired,
          }),
          line: ({ id, email, group: to, role, expiresAt }) =>
            `${id}  ${email ?? 'by a link'}  ${to ? `${to} ${role}` : '-'}  until ${expiresAt.toISOString()}`,
          none: 'There are no open invitations.',
        })
      }),
    )
}

function withdrawCommand(): Command {
  return new Command('withdraw')
    .description('Withdraw an invitation: its link stops working.')
    .argument('<id>', 'as svc invitation list shows it', readId)
    .addOption(jsonOption())
    .action(async (id: string, options: JsonOptions) => {
      const isDone = await withDatabase((db) => withdrawInvitation(db, operator, id, null))
      if (!isDone) throw new Error(`There is no open invitation ${id}.`)
      printResult(options, { id: Number(id), withdrawn: true }, `Invitation ${id} withdrawn.`)
    })
}

function readId(text: string): string {
  const id = readRowId(text)
  if (id !== null) return id
  throw new InvalidArgumentError('It must be a number.')
}
