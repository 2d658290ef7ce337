import * as z from 'zod'
import type { Config } from '../config.ts'
import { enforcedScopes } from '../domain/permissions.ts'
import { isApplicationScope } from '../domain/scopes.ts'
import { listMistakes } from './application-rules.ts'
import type { NewApplication } from './applications.ts'
import { checkRedirectUri, isUnencrypted } from './redirect-uri.ts'

/** A client metadata document, as far as svc uses it (OPENID 279). */
export interface ClientDocument {
  /** Its URL. */
  clientId: string
  name: string
  /** Those that svc can redirect to, without repeats. At least one. */
  redirectUris: string[]
  /** The scopes that the application may ask for. At least one. */
  scopes: string[]
}

/** Thrown for a document that cannot be read or used. The message is for the author of the application. */
export class DocumentRefusal extends Error {
  override readonly name = 'DocumentRefusal'
}

/** Reading what svc enforces: what an application may ask for if its document names no scopes. */
const scopesByDefault = enforcedScopes.filter((scope) => scope.endsWith(':r'))

/** Other members are ignored, such as grant types: the application gets those that svc has. */
const Members = z.object({
  client_id: z.string(),
  client_name: z.string(),
  redirect_uris: z.array(z.string()).min(1),
  scope: z.string().optional(),
  token_endpoint_auth_method: z.string().optional(),
})

const secretMembers = ['client_secret', 'client_secret_expires_at'] as const

/**
 * Reads the bytes of the document with a URL. Throws `DocumentRefusal` if they break a rule: of the draft
 * draft-ietf-oauth-client-id-metadata-document, or of SPEC 2.1 for every application.
 */
export function readClientDocument(
  bytes: Buffer,
  url: string,
  config: Pick<Config, 'baseUrl' | 'site'>,
): ClientDocument {
  const refuse = (reason: string) => new DocumentRefusal(`The client metadata document ${reason}.`)
  const json = parseObject(bytes)
  if (json === null) throw refuse('is no JSON object')
  const secret = secretMembers.find((name) => Object.hasOwn(json, name))
  if (secret !== undefined) throw refuse(`has ${secret}: everybody can read it`)
  const read = Members.safeParse(json)
  if (!read.success) {
    const [member = ''] = read.error.issues[0]?.path ?? []
    throw refuse(`has no ${String(member)}, or one of another type`)
  }
  const { client_id: id, client_name: name, redirect_uris: uris, scope = '' } = read.data
  const { token_endpoint_auth_method: method = 'none' } = read.data
  if (id !== url) throw refuse('has another client_id than its URL')
  if (method !== 'none')
    throw refuse('has a token_endpoint_auth_method other than none, which is the only one for documents')
  const redirectUris = [...new Set(uris)].filter(isUsable)
  const [redirectUri] = redirectUris
  if (redirectUri === undefined)
    throw refuse('has no redirect URI that can be used: https, loopback, or a private-use scheme with a dot')
  const named = [...new Set(scope.split(/ +/))].filter(isApplicationScope)
  const document = { clientId: url, name, redirectUris, scopes: named.length > 0 ? named : scopesByDefault }
  const registration = { ...registrationOf(document), logo: null }
  const mistakes = listMistakes(registration, config)
  if (mistakes.length > 0) throw refuse(`cannot be used: ${mistakes.join('; ')}`)
  return document
}

/** Returns the registration of the application that a document describes, without its logo. */
export function registrationOf(
  document: ClientDocument,
): Omit<NewApplication, 'clientId' | 'logo' | 'secretHash' | 'status'> & { clientId: string } {
  const { clientId, name, redirectUris, scopes } = document
  const [redirectUri = ''] = redirectUris
  return {
    clientId,
    name,
    description: null,
    website: new URL(clientId).origin,
    redirectUri,
    redirectUris,
    exactRedirect: true,
    scopes,
    resourceScope: 'all',
    isPublic: true,
    isDevice: false,
    isResourceServer: false,
  }
}

/** Returns whether svc redirects to a URI: any scheme but plain http to other machines. */
function isUsable(uri: string): boolean {
  const registration = { redirectUri: uri, exactRedirect: true, isPublic: true }
  return checkRedirectUri(uri, registration, []).refusal === undefined && !isUnencrypted(uri)
}

function parseObject(bytes: Buffer): object | null {
  try {
    const json: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
    return typeof json === 'object' && json !== null && !Array.isArray(json) ? json : null
  } catch {
    return null
  }
}
