import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { findSigningKey, isSigned, sign } from '../../../accounts/signatures.ts'
import type { Queryable } from '../../../database/database.ts'

const maxPathCharacters = 1024
/** The maximum length of a link to the authorization endpoint. Not every browser and proxy accepts longer URLs (OAUTH 50). */
export const maxLinkCharacters = 8192

/**
 * A path on this server. It excludes `//host`, `/\host`, and characters that browsers remove, which could lead to
 * these.
 */
const ownPath = /^\/(?![/\\])[!-~]*$/

/**
 * Returns the path of a page as a signed value for URLs and forms, to return to it after a sign-in. A path that is too
 * long is signed without its query, and so are the links of invitations and verifications: their token is a secret, and
 * the browser keeps it in a cookie. Null when there is no path to return to. The sign-in then redirects to the home page.
 */
export async function signPage(db: Queryable, path: string): Promise<string | null> {
  const isWhole = path.length <= maxPathCharacters && !/[?&]token=/.test(path)
  const kept = isWhole ? path : path.replace(/\?.*/s, '')
  return kept.length <= maxPathCharacters ? signPath(db, kept) : null
}

/** What svc adds to a link at most, so that the browser comes back to it. */
const maxAddedCharacters = 100

/** Like `signPage`, for a longer link to the authorization endpoint, whose client and redirect URI are checked. */
export async function signAuthorizationLink(db: Queryable, link: string): Promise<string | null> {
  return link.length <= maxLinkCharacters + maxAddedCharacters ? signPath(db, link) : null
}

/** Returns the path of a signed value. Null for any other text. */
export async function findReturn(db: Queryable, signed: string): Promise<string | null> {
  const [, signature, packed] = /^([\w-]{43})([\w-]+)$/.exec(signed) ?? []
  if (signature === undefined || packed === undefined) return null
  const key = await findSigningKey(db)
  if (!isSigned(key, 'return path', packed, Buffer.from(signature, 'base64url'))) return null
  return inflateRawSync(Buffer.from(packed, 'base64url')).toString()
}

/** The path is compressed: percent-encoded again, a long link would exceed what proxies accept as a URL. */
async function signPath(db: Queryable, path: string): Promise<string | null> {
  if (path === '/' || !ownPath.test(path)) return null
  const packed = deflateRawSync(path).toString('base64url')
  return sign(await findSigningKey(db), 'return path', packed).toString('base64url') + packed
}
