import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { holdersOf } from './admission.ts'
import { readBearer } from './bearer.ts'
import type { ApiContext } from './context.ts'
import { invalidToken } from './errors.ts'
import { addInterface } from './interface.ts'
import { plainText } from './plain-text.ts'
import { renameTokenHolder, type TokenHolder } from './token-holders.ts'

const User = z.object({
  id: z.int(),
  username: z.string(),
  name: z.string(),
  created_at: z.iso.datetime(),
})

/** As the schema's constraint on display names. */
const Changes = z.object({ name: plainText(100) })

const Email = z.object({ email: z.string(), primary: z.boolean(), verified: z.boolean() })

/** The account behind the token: `/api/user` and `/api/user/emails` (DESIGN §6). */
export async function userRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  addInterface(
    app,
    {
      method: 'GET',
      url: '/user',
      summary: 'The account behind the token',
      entrance: holdersOf(context, 'account-profile:r'),
      answer: User,
    },
    async ({ admitted }) => describe(admitted),
  )

  addInterface(
    app,
    {
      method: 'PATCH',
      url: '/user',
      summary: 'Change the display name of the account behind the token',
      entrance: holdersOf(context, 'account-profile:rw'),
      body: Changes,
      answer: User,
    },
    async ({ request, body }) => {
      const renamed = await renameTokenHolder(context.db, readBearer(request), body.name)
      if (!renamed) throw invalidToken()
      return describe(renamed)
    },
  )

  addInterface(
    app,
    {
      method: 'GET',
      url: '/user/emails',
      summary: 'The verified email of the account behind the token',
      entrance: holdersOf(context, 'account-email:r'),
      answer: z.array(Email),
    },
    async ({ admitted: { email } }) => (email === null ? [] : [{ email, primary: true, verified: true }]),
  )
}

function describe({ accountId, username, displayName, createdAt }: TokenHolder): z.input<typeof User> {
  return { id: Number(accountId), username, name: displayName, created_at: createdAt.toISOString() }
}
