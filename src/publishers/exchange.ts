import type { AppContext } from '../context.ts'
import { transaction } from '../database/database.ts'
import { deployRights } from '../domain/permissions.ts'
import type { Principal } from '../domain/principal.ts'
import { type PublisherRight, type PublisherRightName, publisherRightNames } from '../domain/publisher.ts'
import { hashSecret, makeSecret } from '../domain/secrets.ts'
import { insertEvent } from '../events/events.ts'
import { claimsDiffer, ExchangeRefusal } from './exchange-refusal.ts'
import {
  algorithmOf,
  checkSignature,
  checkValidity,
  type IdentityToken,
  keyIdOf,
  readIdentityToken,
  replayEndOf,
  replayKeyOf,
  type Validity,
} from './identity-token.ts'
import type { IssuerKeys } from './issuer-keys.ts'
import { type ClaimComparison, claimText, compareClaims, describeClaims, runOf } from './providers.ts'
import { insertPublisherToken, pinPublishers, publisherTokenSeconds } from './publisher-tokens.ts'
import {
  actingAs,
  findPins,
  findPublishersOfIssuer,
  type NamedPublisher,
  noteRefusal,
  type PublishersOfIssuer,
} from './trusted-publishers.ts'

/** A request to exchange an identity token. */
export interface ExchangeRequest {
  /** The group and the name of the repository. */
  group: string
  name: string
  subjectToken: string
  /** Whether the token may only read, whatever the publishers allow. */
  isReadOnly: boolean
  /** Who sends the request. */
  by: Principal
}

/** A token of a trusted publisher. */
export interface IssuedToken {
  token: string
  scope: string
  expiresIn: number
}

/** The context of exchanges. */
export interface ExchangeContext extends AppContext {
  issuerKeys: IssuerKeys
}

/**
 * Exchanges the identity token of a CI job for a token of a repository (RFC 8693). Throws ExchangeRefusal. `inTurn` runs the
 * work on the database and the signature, but not the requests to the issuer.
 *
 * Anybody can get an identity token of a public CI. So the signature and the times are checked before the repository
 * decides anything, and one text stands for an unknown repository, one without trusted publishers, and publishers of
 * other issuers and other projects. Every signed token learns what is wrong with its own audience and times, but only one
 * of the named project learns what a publisher expects, and is noted there: anybody can write one that cannot be
 * verified. An issuer that no publisher of the whole site names is never asked for its keys: otherwise everybody could
 * make svc send requests.
 */
export async function exchangeIdentityToken(
  context: ExchangeContext,
  { group, name, subjectToken, isReadOnly, by }: ExchangeRequest,
  inTurn: <T>(work: () => Promise<T>) => Promise<T>,
): Promise<IssuedToken> {
  const identity = readIdentityToken(subjectToken)
  const place = { group, name, issuer: identity.issuer }
  const found = await inTurn(() => findPublishersOfIssuer(context.db, place))
  if (!found.isTrustedAnywhere) throw noPublisher(identity)
  // A slow issuer delays nobody: its requests take no turn.
  await context.issuerKeys.load({ issuer: identity.issuer, ...found }, keyIdOf(identity))
  return inTurn(async () => {
    const { expires, differs: invalid } = await verifyIdentity(context, identity)
    const { repositoryId } = found
    const named = comparePublishers(found, identity).filter(({ isProject }) => isProject)
    if (repositoryId !== null && named.length > 0) {
      const refused = named.map((one) => ({ ...one, differs: [...invalid, ...one.differs] }))
      const matching = named.filter(({ differs }) => differs.length === 0)
      if (invalid.length > 0 || matching.length === 0)
        throw await refuse(context, by, { repositoryId, named: refused, identity })
      return issue(context, { repositoryId, matching, identity, expires, isReadOnly, by })
    }
    throw invalid.length > 0 ? claimsDiffer(invalid) : noPublisher(identity)
  })
}

/** A publisher, compared with an identity token. */
export type ComparedPublisher = ClaimComparison & { publisher: NamedPublisher }

/** Compares the publishers of a repository that name the issuer with an identity token. */
function comparePublishers(
  { publishers }: Pick<PublishersOfIssuer, 'publishers'>,
  { claims }: IdentityToken,
): ComparedPublisher[] {
  return publishers.map((publisher) => ({ publisher, ...compareClaims(publisher, claims) }))
}

/**
 * Checks the signature of an identity token, whose issuer's keys are loaded. Throws `invalid_grant` for a wrong one. Returns
 * what is wrong with its audience and its times.
 */
export async function verifyIdentity(
  { config, issuerKeys }: Pick<ExchangeContext, 'config' | 'issuerKeys'>,
  identity: IdentityToken,
): Promise<Validity> {
  const key = await issuerKeys.find(identity.issuer, keyIdOf(identity), algorithmOf(identity))
  await checkSignature(identity, key)
  return checkValidity(identity, config.authUrl)
}

function noPublisher({ claims }: IdentityToken): ExchangeRefusal {
  const given = describeClaims(claims) || 'none'
  return new ExchangeRefusal(
    'invalid_target',
    `The resource has no trusted publisher for this token, or there is no such resource. Given claims: ${given}`,
  )
}

/** Stores the refusal at each publisher of the project. Returns the error, which names what differs least. */
async function refuse(
  { db }: ExchangeContext,
  by: Principal,
  {
    repositoryId,
    named,
    identity,
  }: { repositoryId: string; named: readonly ComparedPublisher[]; identity: IdentityToken },
): Promise<ExchangeRefusal> {
  const refused = named.map(({ publisher, differs }) => ({
    id: publisher.id,
    exchange: { differs, run: runOf(publisher, identity.claims) },
  }))
  await noteRefusal(db, by, repositoryId, refused)
  const [nearest] = named.toSorted((a, b) => a.differs.length - b.differs.length)
  return claimsDiffer(nearest?.differs ?? [])
}

/** What an exchange that passed all checks issues. */
interface Issue {
  repositoryId: string
  matching: readonly ComparedPublisher[]
  identity: IdentityToken
  expires: number
  isReadOnly: boolean
  by: Principal
}

async function issue(context: ExchangeContext, about: Issue): Promise<IssuedToken> {
  try {
    return await store(context, about)
  } catch (error) {
    if (!(error instanceof ReplayedError)) throw error
    throw await refuseReplay(context, about)
  }
}

/** The identity token was exchanged before. It undoes what its transaction has written. */
class ReplayedError extends Error {}

async function store(context: ExchangeContext, about: Issue): Promise<IssuedToken> {
  const { repositoryId, matching, identity, by } = about
  const token = makeSecret('publisher')
  const outcome = await transaction(context.db, async (tx) => {
    const pinned = await pinPublishers(
      tx,
      matching.map(({ publisher, pins }) => ({ id: publisher.id, pins })),
    )
    const given = matching.filter(({ publisher }) => pinned.some(({ id }) => id === publisher.id))
    const [strongest] = given.toSorted((a, b) => rankOf(a.publisher.right) - rankOf(b.publisher.right))
    if (!strongest) return null
    const rights = given.map(
      ({ publisher: { right, packages } }): PublisherRight => ({
        right: about.isReadOnly ? 'read' : right,
        packages,
      }),
    )
    const isReader = rights.every(({ right }) => right === 'read')
    const { role } = deployRights[isReader ? 'read' : 'publish']
    const scope = isReader ? 'registry-package:r' : 'registry-package:rw'
    const run = runOf(strongest.publisher, identity.claims)
    const isStored = await insertPublisherToken(tx, {
      tokenHash: hashSecret(token),
      repositoryId,
      publisherId: strongest.publisher.id,
      publisherIds: given.map(({ publisher }) => publisher.id),
      rights,
      role,
      scopes: [scope],
      run,
      replay: { key: replayKeyOf(identity), until: replayEndOf(about.expires) },
    })
    // The pins of this transaction are those of the exchange that has used the token.
    if (!isStored) throw new ReplayedError()
    for (const { publisher, pins } of given) {
      if (!pinned.some(({ id, isFirst }) => isFirst && id === publisher.id)) continue
      const details = { publisher: Number(publisher.id), run, pins }
      await insertEvent(tx, actingAs(publisher.id, by), { repositoryId, action: 'use-publisher', details })
    }
    return scope
  })
  if (outcome !== null) return { token, scope: outcome, expiresIn: publisherTokenSeconds }
  return refuseChangedPins(context, about)
}

/**
 * Stores a replay at each publisher that matches: the token is one of the project, and somebody may have stolen it. Returns
 * the error.
 */
async function refuseReplay(
  context: ExchangeContext,
  { repositoryId, matching, identity, by }: Issue,
): Promise<ExchangeRefusal> {
  const given = claimText(identity.claims['jti'])
  const differs = [{ claim: 'jti', expected: 'a token that was not exchanged before', given }]
  const named = matching.map((one) => ({ ...one, differs }))
  const { code, message } = await refuse(context, by, { repositoryId, named, identity })
  return new ExchangeRefusal(code, `${message} Each token is exchanged once: request a new one from the CI.`)
}

/** Another exchange has pinned other ids, or the publishers were removed, since they were read. */
async function refuseChangedPins(
  context: ExchangeContext,
  { repositoryId, matching, identity, by }: Issue,
): Promise<never> {
  const pins = await findPins(
    context.db,
    matching.map(({ publisher }) => publisher.id),
  )
  const publishers = matching.flatMap(({ publisher }) => {
    const now = pins.get(publisher.id)
    return now === undefined ? [] : [{ ...publisher, pins: now }]
  })
  if (publishers.length === 0) throw noPublisher(identity)
  throw await refuse(context, by, {
    repositoryId,
    named: comparePublishers({ publishers }, identity),
    identity,
  })
}

function rankOf(right: PublisherRightName): number {
  return publisherRightNames.indexOf(right)
}
