import type pg from 'pg'
import { transaction } from '../database/database.ts'
import { addApplication } from './applications.ts'

/** The client id of the command line (OPENID 228). It is the same in every installation, so that `svc login` knows it. */
export const commandLineClientId = 'svccommandline'

/**
 * Adds the application of the command line, which is a public client for devices. It is added once: what an administrator does
 * with it later stays, also that it is deleted.
 */
export async function addCommandLineClient(
  db: pg.Pool,
  { website, logo }: { website: string; logo: Buffer },
): Promise<void> {
  await transaction(db, async (tx) => {
    const { rowCount } = await tx.query(
      'insert into provided_application (client_id) values ($1) on conflict do nothing',
      [commandLineClientId],
    )
    if (rowCount === 0) return
    await addApplication(tx, {
      clientId: commandLineClientId,
      name: 'svc command line',
      description: 'The commands of svc in a terminal.',
      website,
      redirectUri: 'http://127.0.0.1/callback',
      exactRedirect: true,
      scopes: ['account-profile:r', 'group-resource:r', 'repo-basic-info:r', 'registry-package:rw'],
      resourceScope: 'all',
      status: 'approved',
      isPublic: true,
      isDevice: true,
      isResourceServer: false,
      logo,
      secretHash: null,
    })
  })
}
