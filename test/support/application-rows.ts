import type { Queryable } from '../../src/database/database.ts'

/** An application, as it is stored. */
export interface StoredApplication {
  clientId: string
  name: string
  description: string | null
  website: string
  redirectUri: string
  isExactRedirect: boolean
  logo: Buffer
  scopes: string[]
  resourceScope: string
  status: string
  statusReason: string | null
  isPublic: boolean
  isDevice: boolean
  isResourceServer: boolean
}

/** Lists all applications. */
export async function listStoredApplications(db: Queryable): Promise<StoredApplication[]> {
  const { rows } = await db.query<StoredApplication>(
    `select client_id as "clientId", name, description, website, redirect_uri as "redirectUri",
            exact_redirect as "isExactRedirect", logo, scopes, resource_scope as "resourceScope", status,
            is_public as "isPublic", is_device as "isDevice", status_reason as "statusReason", is_resource_server as "isResourceServer"
       from application order by id`,
  )
  return rows
}

/** Lists the hashes of the secrets with which an application can sign in, the oldest first. */
export async function workingSecretHashes(db: Queryable, clientId: string): Promise<Buffer[]> {
  const { rows } = await db.query<{ hash: Buffer }>(
    `select secret_hash as hash from application_secret s join application a on a.id = s.application_id
      where client_id = $1 and s.expires_at > now() order by s.created_at`,
    [clientId],
  )
  return rows.map(({ hash }) => hash)
}

/** Lets the database refuse every new application. */
export async function refuseApplications(db: Queryable): Promise<void> {
  await db.query('alter table application add check (false)')
}

/** Makes all applications older. */
export async function ageApplications(db: Queryable, by: string): Promise<void> {
  await db.query('update application set created_at = created_at - $1::interval', [by])
}

/** Makes an account the developer of an application. */
export async function setDeveloper(
  db: Queryable,
  application: { id: string },
  account: { id: string },
): Promise<void> {
  await db.query('update application set developer_id = $2 where id = $1', [application.id, account.id])
}
