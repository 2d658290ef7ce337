import type { FastifyInstance, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Parts } from '../app.ts'
import type { LastUse } from '../last-use.ts'
import { readBearer, requireScope } from './bearer.ts'
import { invalidArgument, invalidToken } from './errors.ts'
import { findTokenHolder, renameTokenHolder, type TokenHolder } from './token-holders.ts'

/** As the schema's constraint on display names. */
const maxNameLength = 100

const Changes = z.object({
  name: z
    .string()
    .trim()
    .refine((name) => Array.from(name).length <= maxNameLength && !/\p{Cc}|\p{Cs}/u.test(name)),
})

/** The account behind the token: `/api/user` and `/api/user/emails` (DESIGN §6). */
export async function userRoutes(app: FastifyInstance, parts: Parts & { lastUse: LastUse }): Promise<void> {
  app.get('/user', async (request) => describe(await holderOf(parts, request, 'account-profile:r')))

  app.patch('/user', async (request) => {
    await holderOf(parts, request, 'account-profile:rw')
    const changes = Changes.safeParse(request.body)
    if (!changes.success) {
      throw invalidArgument(
        `name must be text of at most ${maxNameLength} characters, without control characters`,
      )
    }
    const renamed = await renameTokenHolder(parts.db, readBearer(request), changes.data.name)
    if (!renamed) throw invalidToken()
    return describe(renamed)
  })

  app.get('/user/emails', async (request) => {
    const { email } = await holderOf(parts, request, 'account-email:r')
    return email === null ? [] : [{ email, primary: true, verified: true }]
  })
}

/** The holder of the request's token. Throws RFC 6750's refusals: no token, a dead one, or one without the scope. */
async function holderOf(
  { db, lastUse }: Parts & { lastUse: LastUse },
  request: FastifyRequest,
  scope: string,
): Promise<TokenHolder> {
  const holder = await findTokenHolder(db, readBearer(request))
  if (!holder) throw invalidToken()
  lastUse.note(holder)
  requireScope(holder.scopes, scope)
  return holder
}

function describe({ accountId, username, displayName, createdAt }: TokenHolder): object {
  return { id: Number(accountId), username, name: displayName, created_at: createdAt.toISOString() }
}
