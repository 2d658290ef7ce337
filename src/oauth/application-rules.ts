import { imageTypeOf } from '../domain/image-type.ts'
import { mixesScripts, skeletonOf } from '../domain/lookalikes.ts'
import { isPlainText } from '../domain/plain-text.ts'
import { isApplicationScope } from '../domain/scopes.ts'
import { isNameOfSite, type Site } from '../domain/site.ts'
import { checkRedirectUri } from './redirect-uri.ts'

/** The parts of a registration that SPEC 2.1, 8 limit. */
export interface Registration {
  name: string
  description: string | null
  website: string
  redirectUri: string
  isPublic: boolean
  isResourceServer: boolean
  postLogoutRedirectUri?: string | null
  backchannelLogoutUri?: string | null
  scopes: readonly string[]
  /** Null when it is not changed. */
  logo: Buffer | null
}

/** The maximum numbers of characters in a registration (SPEC 2.1). */
export const registrationLimits = { name: 50, description: 350, website: 128 } as const
/** "1 MB" of SPEC 2.1, read as 1 MiB. */
export const maxLogoBytes = 1_048_576

/** Returns a sentence for each limit of SPEC 2.1, 8 that the registration breaks, also for the name of the site. */
export function listMistakes(registration: Registration, config: { baseUrl: string; site: Site }): string[] {
  const { name, description, website, redirectUri, isPublic, isResourceServer, scopes, logo } = registration
  const { postLogoutRedirectUri: back = null, backchannelLogoutUri: told = null } = registration
  const refusalOf = (uri: string, what: string, mayBePrivateUse: boolean) =>
    checkRedirectUri(uri, { redirectUri: uri, exactRedirect: true, isPublic: mayBePrivateUse }, [])
      .refusal?.replace('redirect_uri', what)
      .replace(/\.$/, '') ?? false
  const redirect = checkRedirectUri(redirectUri, { redirectUri, exactRedirect: false, isPublic }, [])
  return [
    name.trim() === '' && 'the name is empty',
    tooLong('name', name, registrationLimits.name),
    !isPlainText(name) && 'the name has control characters',
    mixesScripts(name) && 'a word of the name has letters of two scripts, such as Latin and Cyrillic',
    isNameOfSite(name, config) && 'the name is that of this site',
    description !== null && tooLong('description', description, registrationLimits.description),
    description !== null &&
      !isPlainText(description.replaceAll(/[\t\r\n]/g, '')) &&
      'the description has control characters',
    tooLong('website', website, registrationLimits.website),
    !isPlainText(website) && 'the website has control characters',
    !isWebUrl(website) && 'the website is not an http or https URL',
    hasUserinfo(website) && 'the website has a username or password before its host',
    redirect.refusal?.replace('redirect_uri', 'the Redirect URL').replace(/\.$/, '') ?? false,
    back !== null && refusalOf(back, 'the URL after a sign-out', isPublic),
    told !== null && refusalOf(told, 'the URL for logout tokens', false),
    isPublic && isResourceServer && 'a public client cannot be a resource server',
    scopes.length === 0 && 'no scope is chosen',
    !scopes.every(isApplicationScope) && 'a scope is not known',
    logo !== null && logo.length > maxLogoBytes && `the logo has more than ${maxLogoBytes} bytes (1 MB)`,
    logo !== null && imageTypeOf(logo) === null && 'the logo is not a PNG, JPEG, GIF or WebP image',
  ].filter((mistake) => typeof mistake === 'string')
}

/**
 * Returns the name of another application for which people could take this name on the consent page. Null when there is
 * none. It applies to what administrators register and rename, not to seeds: an operator has read those (SPEC 2.1).
 */
export function findLookalike(
  { clientId, name }: { clientId: string | null; name: string },
  others: readonly { clientId: string; name: string }[],
): string | null {
  const skeleton = skeletonOf(name)
  const other = others.find((one) => one.clientId !== clientId && skeletonOf(one.name) === skeleton)
  return other?.name ?? null
}

function tooLong(what: string, text: string, most: number): string | false {
  const characters = Array.from(text).length
  return characters > most && `the ${what} has ${characters} characters, more than ${most}`
}

function isWebUrl(text: string): boolean {
  return /^https?:\/\/[^\s\p{Cc}/?#"<>]+[^\s\p{Cc}"<>]*$/u.test(text) && URL.canParse(text)
}

/** Returns whether a URL has userinfo. A reader may mistake it for the host: https://example.com@elsewhere.example. */
function hasUserinfo(text: string): boolean {
  return /^https?:\/\/[^/?#]*@/.test(text)
}
