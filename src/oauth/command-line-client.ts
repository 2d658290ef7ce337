import type { Queryable } from '../database/database.ts'

/** The client id of the command line (OPENID 228). It is the same in every installation, so that `svc login` knows it. */
export const commandLineClientId = 'svccommandline'

/**
 * Adds the application of the command line, which is a public client for devices. It is added once: what an administrator does
 * with it later stays, also that it is deleted.
 */
export async function addCommandLineClient(
  db: Queryable,
  { website, logo }: { website: string; logo: Buffer },
): Promise<void> {
  await db.query(
    `with first as (
       insert into provided_application (client_id) values ($1) on conflict do nothing returning client_id)
     insert into application (client_id, name, description, website, redirect_uri, exact_redirect, scopes, resource_scope,
                              status, is_public, is_device, logo)
     select client_id, 'svc command line', 'The commands of svc in a terminal.', $2, 'http://127.0.0.1/callback', true,
            $3, 'all', 'approved', true, true, $4
       from first
     on conflict (client_id) do nothing`,
    [
      commandLineClientId,
      website,
      ['account-profile:r', 'group-resource:r', 'repo-basic-info:r', 'registry-package:rw'],
      logo,
    ],
  )
}
