import * as z from 'zod'
import { plainText } from '../../domain/plain-text.ts'
import { type ApiScope, endpoint, Moment } from './endpoint.ts'
import { invalidToken } from './errors.ts'
import { type ApiContext, guardToken, readBearer } from './guards.ts'
import { renameTokenHolder, type TokenAccount, type TokenHolder } from './token-holders.ts'

const User = z
  .object({
    id: z.int().meta({ description: 'Never changes and is never reused', example: 42 }),
    username: z.string().meta({ description: 'The name for signing in and in URLs', example: 'alice' }),
    name: z.string().meta({ description: 'Display name; may be empty', example: 'Alice Doe' }),
    created_at: Moment.meta({ description: 'When the account was created' }),
  })
  .meta({ id: 'User', description: 'An account as its holder sees it' })

const UserUpdate = z
  .strictObject({ name: plainText(100).meta({ description: 'New display name', example: 'Alice Doe' }) })
  .meta({ id: 'UserUpdate' })

const Email = z
  .object({
    email: z.string().meta({ description: 'Email address', example: 'alice@example.com' }),
    primary: z.boolean().meta({ description: 'Always true: an account has one email' }),
    verified: z.boolean().meta({ description: 'True after the owner opened a link that was sent to it' }),
  })
  .meta({ id: 'Email' })

/** The account behind the token: `/api/user` and `/api/user/emails`. */
export async function userRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const [mayRead, mayWrite, mayReadEmail] = [
    guardToken('readProfile', context),
    guardToken('changeProfile', context),
    guardToken('readEmails', context),
  ]

  app.get(
    '/user',
    endpoint(mayRead, {
      operationId: 'getUser',
      tag: 'Account',
      summary: 'Get the account behind the token',
      response: { 200: User },
    }),
    async (request) => describeUser(accountOf(mayRead.granted(request))),
  )

  app.patch(
    '/user',
    endpoint(mayWrite, {
      operationId: 'updateUser',
      tag: 'Account',
      summary: 'Change the display name',
      body: UserUpdate,
      response: { 200: User },
    }),
    async (request) => {
      const renamed = await renameTokenHolder(context.db, readBearer(request), request.body.name)
      if (!renamed) throw invalidToken()
      return describeUser(renamed)
    },
  )

  app.get(
    '/user/emails',
    endpoint(mayReadEmail, {
      operationId: 'listEmails',
      tag: 'Account',
      summary: 'List the email addresses of the account',
      response: { 200: z.array(Email) },
    }),
    async (request) => {
      const { email, emailVerifiedAt } = accountOf(mayReadEmail.granted(request))
      return email === null ? [] : [{ email, primary: true, verified: emailVerifiedAt !== null }]
    },
  )
}

/** Returns the account of a token. A deploy token has no account, and none of the scopes of these endpoints. */
function accountOf({ account }: TokenHolder): TokenAccount {
  if (!account) throw invalidToken()
  return account
}

function describeUser({ id, username, displayName, createdAt }: TokenAccount): z.input<typeof User> {
  return { id: Number(id), username, name: displayName, created_at: createdAt.toISOString() }
}
