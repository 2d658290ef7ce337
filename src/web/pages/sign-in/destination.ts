import type { AppContext } from '../../../context.ts'
import { isNameOfSite } from '../../../domain/site.ts'
import { AuthorizationPageError, findRegistered, proveLink } from '../../oauth/authorize-request.ts'
import { findReturn } from './return-path.ts'

/** The application that a sign-in leads to. */
export interface Destination {
  clientId: string
  /** Never the name of the site: an application must not look like the page that asks for a password. */
  name: string
  /** The host to which the browser goes after the authorization. */
  host: string
}

/**
 * Returns the application whose link to the authorization endpoint the browser opens after the sign-in. Null for other
 * pages, and for a link that svc would refuse.
 */
export async function findDestination(
  { config, db }: AppContext,
  returnId: string,
): Promise<Destination | null> {
  const path = await findReturn(db, returnId)
  if (!path?.startsWith('/oauth2/auth?')) return null
  try {
    const { application, target } = await proveLink(findRegistered(db), path)
    const { host } = new URL(target.redirectUri)
    const { clientId, name, isUnreviewed } = application
    // The page that asks for a password has no warning, so it says nothing that nobody has reviewed.
    if (isUnreviewed) return null
    return { clientId, name: isNameOfSite(name, config) ? host : name, host }
  } catch (error) {
    if (error instanceof AuthorizationPageError) return null
    throw error
  }
}
