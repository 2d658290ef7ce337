import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { liftQuarantine, quarantineVersion } from '../registry/lifecycle/quarantine.ts'
import { allowedTo, versionChangeOf } from './admission.ts'
import type { ApiContext } from './context.ts'
import { addInterface } from './interface.ts'
import { plainText } from './plain-text.ts'
import { versionUrl } from './versions.ts'

const Quarantine = z.object({
  reason: plainText(500).min(1).default('quarantined by its registry'),
})

/** The quarantine of a version: `…/<version>/quarantine` (DESIGN §6). */
export async function quarantineRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  const url = `${versionUrl}/quarantine`

  addInterface(
    app,
    {
      method: 'POST',
      url,
      summary: 'Put a version into quarantine: Composer is no longer offered it, and told to refuse it',
      entrance: allowedTo('push', context),
      body: Quarantine,
      answer: z.object({ version: z.string(), quarantine_reason: z.string() }),
    },
    async ({ request, admitted, body }) => {
      const change = versionChangeOf(request, admitted)
      await quarantineVersion(context.db, change, body.reason)
      return { version: change.version, quarantine_reason: body.reason }
    },
  )

  addInterface(
    app,
    {
      method: 'DELETE',
      url,
      summary: 'Lift the quarantine of a version',
      // Whoever pushed a harmful version, or stole that token, must not be able to release it.
      entrance: allowedTo('manage', context),
    },
    async ({ request, admitted }) => {
      await liftQuarantine(context.db, versionChangeOf(request, admitted))
    },
  )
}
