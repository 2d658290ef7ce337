import type { Queryable } from '../../src/database.ts'
import { type Application, insertApplication, type NewApplication } from '../../src/oauth/applications.ts'
import { hashSecret, makeClientId, makeSecret } from '../../src/secrets.ts'

/** The smallest picture that a browser shows: one transparent pixel. */
export const pixel = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

export interface ApplicationActor extends Application {
  clientSecret: string
  /** The Authorization header by which it authenticates. */
  basic: string
}

/** A registered application; approved, unless said otherwise. */
export async function anApplication(
  db: Queryable,
  differences: Partial<NewApplication> = {},
): Promise<ApplicationActor> {
  const clientSecret = makeSecret('client')
  const application = await insertApplication(db, {
    clientId: makeClientId(),
    name: 'Package Mirror',
    description: 'Mirrors packages',
    website: 'https://app.example.com',
    redirectUri: 'https://app.example.com/callback',
    exactRedirect: false,
    logo: pixel,
    scopes: ['account-profile:r', 'account-email:r', 'registry-package:rw'],
    resourceScope: 'all',
    status: 'approved',
    isResourceServer: false,
    secretHash: hashSecret(clientSecret),
    ...differences,
  })
  return { ...application, clientSecret, basic: basicOf(application.clientId, clientSecret) }
}

/** HTTP Basic credentials, neither part encoded. */
export function basicOf(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}
