import { type ExchangeContext, verifyIdentity } from './exchange.ts'
import { ExchangeRefusal } from './exchange-refusal.ts'
import { type IdentityToken, keyIdOf, readIdentityToken } from './identity-token.ts'
import { type ClaimDifference, type Claims, compareClaims } from './providers.ts'
import { findPublishersOfIssuer, listPublishers, type TrustedPublisher } from './trusted-publishers.ts'

/** What an exchange of an identity token would show. */
export interface TokenCheck {
  /** The audience that an identity token must have. */
  audience: string
  claims: Claims
  publishers: { publisher: TrustedPublisher; differs: ClaimDifference[] }[]
}

/**
 * Compares an identity token with all trusted publishers of a repository, and issues nothing. Throws ExchangeRefusal for a
 * text that is no identity token. Only for those who may see what the publishers expect.
 */
export async function checkIdentityToken(
  context: ExchangeContext,
  { repositoryId, path, token }: { repositoryId: string; path: string; token: string },
): Promise<TokenCheck> {
  const identity = readIdentityToken(token)
  const common = await checkCommon(context, path, identity)
  const publishers = await listPublishers(context.db, repositoryId, { after: null, limit: 1000 })
  return {
    audience: context.config.authUrl,
    claims: identity.claims,
    publishers: publishers.map((publisher) => {
      const { issuer } = publisher
      const isOther = issuer !== identity.issuer
      const other = { claim: 'iss', expected: issuer, given: identity.issuer || null }
      const own = compareClaims(publisher, identity.claims).differs
      return { publisher, differs: [...(isOther ? [other] : []), ...common, ...own] }
    }),
  }
}

/** Checks what is the same for all publishers: the signature, the audience and the times. */
async function checkCommon(
  context: ExchangeContext,
  path: string,
  identity: IdentityToken,
): Promise<ClaimDifference[]> {
  const { issuer } = identity
  const [group = '', name = ''] = path.split('/')
  const found = await findPublishersOfIssuer(context.db, { group, name, issuer })
  // Nobody trusts the issuer, so its keys are not read.
  if (!found.isTrustedAnywhere) return []
  try {
    await context.issuerKeys.load({ issuer, ...found }, keyIdOf(identity))
    return (await verifyIdentity(context, identity)).differs
  } catch (error) {
    if (!(error instanceof ExchangeRefusal)) throw error
    return [{ claim: 'signature', expected: 'a signature of the issuer', given: error.message }]
  }
}
