import { type Bundle, bundleFromJSON } from '@sigstore/bundle'
import { type Signer, toSignedEntity } from '@sigstore/verify'
import * as z from 'zod'
import type { Queryable } from '../database/database.ts'
import { cleanLine, isPlainText } from '../domain/plain-text.ts'
import type { Principal } from '../domain/principal.ts'
import type { Attested, Provenance } from '../domain/provenance.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { claimsOfCertificate } from './certificate-claims.ts'
import { describeDifferences } from './exchange-refusal.ts'
import { type Claims, compareCertificate, runOf } from './providers.ts'
import { findPublishersOfToken, type NamedPublisher } from './trusted-publishers.ts'
import type { TrustedRoots, TrustedSigstore } from './trusted-roots.ts'

/** The most bytes of all attestations of an upload. One has 5 to 10 KiB. */
export const maxAttestationBytes = 64 * 1024
const maxAttestations = 4

const base64 = z.base64().min(1)

/** A number of 64 bits in the JSON of Protocol Buffers. */
const wholeNumber = z.union([z.string(), z.int().transform(String)]).refine((text) => /^\d{1,19}$/.test(text))
const LogEntry = z.object({
  logIndex: wholeNumber,
  logId: z.object({ keyId: base64 }),
  kindVersion: z.object({ kind: z.string(), version: z.string() }),
  integratedTime: wholeNumber,
  inclusionPromise: z.object({ signedEntryTimestamp: base64 }).optional(),
  inclusionProof: z.object({
    logIndex: wholeNumber.default('0'),
    rootHash: base64,
    treeSize: wholeNumber,
    hashes: z.array(base64).default([]),
    checkpoint: z.object({ envelope: z.string() }),
  }),
  canonicalizedBody: base64,
})

/** An attestation object (PEP 740). Unknown members are left out: nothing verifies them. */
const Attestation = z.object({
  version: z.literal(1),
  verification_material: z.object({
    certificate: base64,
    transparency_entries: z.array(LogEntry).min(1).max(4),
  }),
  envelope: z.object({ statement: base64, signature: base64 }),
})
type Attestation = z.output<typeof Attestation>

/** A bundle of Sigstore, in the members that an attestation object needs. Tools that sign write this format. */
const SigstoreBundle = z.object({
  verificationMaterial: z.object({
    certificate: z.object({ rawBytes: z.string() }).optional(),
    x509CertificateChain: z.object({ certificates: z.array(z.object({ rawBytes: z.string() })) }).optional(),
    tlogEntries: z.array(z.unknown()).default([]),
  }),
  dsseEnvelope: z.object({
    payload: z.string(),
    payloadType: z.literal('application/vnd.in-toto+json'),
    signatures: z.array(z.object({ sig: z.string() })).length(1),
  }),
})

/** The signed statement (in-toto, version 1). */
const Statement = z.object({
  _type: z.literal('https://in-toto.io/Statement/v1'),
  subject: z.array(z.object({ digest: z.record(z.string(), z.string()) })),
  predicateType: z.url().max(300).refine(isPlainText),
})

/** What attestations must match. */
interface AttestedUpload {
  /** The SHA-256 of the archive, lower-case hex. */
  sha256: string
  /** Who uploads it. */
  by: Principal
}

/**
 * Verifies the attestations of an upload (PEP 740). Each text is one attestation object, one bundle of Sigstore, or an array of
 * them. They must be about the archive, and signed by the trusted publisher whose token uploads it. Throws a Refusal that says
 * what is wrong. It takes a few milliseconds for each.
 */
export async function verifyAttestations(
  { db, trustedRoots }: { db: Queryable; trustedRoots: TrustedRoots | null },
  texts: readonly string[],
  { sha256, by }: AttestedUpload,
): Promise<Provenance> {
  const { token } = by
  if (token?.kind !== 'publisher')
    throw refuse('attestations need a token of a trusted publisher', {
      warning:
        'A job of the CI that signs them must upload the archive, or leave out the field attestations.',
    })
  if (trustedRoots === null)
    throw new Refusal(errcode.failedPrecondition, 'attestations cannot be verified here', {
      warning:
        'An operator of this server must set TRUSTED_ROOT_FILE to the trusted root of Sigstore. Until then, leave out the field attestations.',
    })
  const roots = trustedRoots()
  const verified = parseAttestations(texts).map((attestation) =>
    verifyAttestation(attestation, roots, sha256),
  )
  const publishers = await findPublishersOfToken(db, token.publishers ?? [])
  const compared = publishers.map((publisher) => ({ publisher, ...compareAll(publisher, verified) }))
  const matching = compared.find(({ differs }) => differs.length === 0)
  if (matching) return provenanceOf(matching.publisher, matching.claims, verified)
  const [nearest] = compared.toSorted((a, b) => a.differs.length - b.differs.length)
  throw refuse('an attestation was signed by another job than those of the trusted publisher', {
    ...(nearest && { warning: describeDifferences(nearest.differs).slice(0, 1000) }),
  })
}

/** An attestation whose signature, certificate and log entry are right, and whose subject is the archive. */
interface VerifiedAttestation {
  attestation: Attestation
  predicateType: string
  signer: Signer
  logUrl: string | null
}

function parseAttestations(texts: readonly string[]): Attestation[] {
  if (texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0) > maxAttestationBytes)
    throw new Refusal(
      errcode.resourceExhausted,
      `attestations too large: more than ${maxAttestationBytes} bytes`,
      { status: 413 },
    )
  const values = texts.flatMap((text): unknown => {
    try {
      return JSON.parse(text)
    } catch {
      throw refuse('attestations must be JSON', {
        warning: "Send the content of the file: curl --form 'attestations=<bundle.json'",
      })
    }
  })
  if (values.length < 1 || values.length > maxAttestations)
    throw refuse(`attestations must have 1 to ${maxAttestations} entries`)
  return values.map(parseAttestation)
}

function parseAttestation(value: unknown): Attestation {
  const bundle = SigstoreBundle.safeParse(value)
  const read = Attestation.safeParse(bundle.success ? fromBundle(bundle.data) : value)
  if (read.success) return read.data
  const where = read.error.issues[0]?.path.join('.') ?? ''
  throw refuse('an attestation must be an attestation object of PEP 740, or a bundle of Sigstore', {
    ...(where !== '' && { warning: `The member ${where} is not as expected.` }),
  })
}

function fromBundle({ verificationMaterial: material, dsseEnvelope }: z.output<typeof SigstoreBundle>) {
  const { certificate = material.x509CertificateChain?.certificates[0], tlogEntries } = material
  if (!certificate)
    throw refuse('an attestation has no certificate', {
      warning: 'Only attestations that a CI job signs without a key of its own are accepted.',
    })
  if (tlogEntries.length === 0)
    throw refuse('an attestation has no entry of a transparency log', {
      warning: 'CIs sign without one in private projects. Such attestations are not accepted.',
    })
  return {
    version: 1,
    verification_material: { certificate: certificate.rawBytes, transparency_entries: tlogEntries },
    envelope: { statement: dsseEnvelope.payload, signature: dsseEnvelope.signatures[0]?.sig },
  }
}

function verifyAttestation(
  attestation: Attestation,
  roots: readonly TrustedSigstore[],
  sha256: string,
): VerifiedAttestation {
  const { signer, root } = verifySignature(toBundle(attestation), roots)
  const statement = readStatement(attestation)
  const [subject] = statement.subject
  if (statement.subject.length !== 1 || subject?.digest['sha256'] !== sha256)
    throw refuse('an attestation is about another archive', {
      warning: `Its only subject must have the SHA-256 of this archive: ${sha256}`,
    })
  const { predicateType } = statement
  return { attestation, predicateType, signer, logUrl: logUrlOf(attestation, root) }
}

/** Returns the bundle of Sigstore that an attestation object stands for. */
function toBundle({ verification_material: material, envelope }: Attestation): Bundle {
  try {
    return bundleFromJSON({
      mediaType: 'application/vnd.dev.sigstore.bundle.v0.3+json',
      verificationMaterial: {
        certificate: { rawBytes: material.certificate },
        tlogEntries: material.transparency_entries,
      },
      dsseEnvelope: {
        payload: envelope.statement,
        payloadType: 'application/vnd.in-toto+json',
        signatures: [{ sig: envelope.signature }],
      },
    })
  } catch (error) {
    throw notVerified(error)
  }
}

function verifySignature(
  bundle: Bundle,
  roots: readonly TrustedSigstore[],
): { signer: Signer; root: TrustedSigstore } {
  let failure: unknown
  for (const root of roots) {
    try {
      return { signer: root.verifier.verify(toSignedEntity(bundle)), root }
    } catch (error) {
      failure ??= error
    }
  }
  throw notVerified(failure)
}

function readStatement({ envelope }: Attestation): z.output<typeof Statement> {
  try {
    return Statement.parse(JSON.parse(Buffer.from(envelope.statement, 'base64').toString()))
  } catch {
    throw refuse('the statement of an attestation must be an in-toto statement of version 1')
  }
}

/** The public log has a site for people. Logs of Rekor's version 2 have no URL for an entry. */
function logUrlOf(
  { verification_material: { transparency_entries: entries } }: Attestation,
  { logUrls }: TrustedSigstore,
): string | null {
  const [entry] = entries
  if (entry?.kindVersion.version !== '0.0.1') return null
  const site = logUrls.get(entry.logId.keyId)
  if (!site || !/^https?:\/\/[^\s"'<>]+$/.test(site)) return null
  const isPublic = site === 'https://rekor.sigstore.dev'
  const entriesUrl = isPublic ? 'https://search.sigstore.dev/' : `${site}/api/v1/log/entries`
  return `${entriesUrl}?logIndex=${entry.logIndex}`
}

/** Compares the certificates with what a publisher expects. */
function compareAll(publisher: NamedPublisher, verified: readonly VerifiedAttestation[]) {
  const claims = verified.map(({ signer }) => claimsOfCertificate(publisher, signer))
  return { claims, differs: claims.flatMap((one) => compareCertificate(publisher, one)) }
}

function provenanceOf(
  publisher: NamedPublisher,
  claims: readonly Claims[],
  verified: readonly VerifiedAttestation[],
): Provenance {
  const document = {
    version: 1,
    attestation_bundles: [
      {
        publisher: describePublisher(publisher),
        attestations: verified.map(({ attestation }) => attestation),
      },
    ],
  }
  const attested = verified.map(
    ({ predicateType, logUrl }, index): Attested => ({
      predicateType,
      run: runOf(publisher, claims[index] ?? {}),
      logUrl,
    }),
  )
  return { document: JSON.stringify(document), attested }
}

const kinds = { github: 'GitHub', gitlab: 'GitLab', forgejo: 'Forgejo', claims: 'Claims' } as const

/** Describes a publisher as PEP 740 and PyPI do. `claims` is what only this server adds. */
function describePublisher({ provider, issuer, project, workflow, environment }: NamedPublisher) {
  return {
    kind: kinds[provider],
    claims: { iss: issuer },
    repository: project,
    [provider === 'gitlab' ? 'workflow_filepath' : 'workflow']: workflow,
    environment,
  }
}

/** The message of the library says what failed, such as the path of the certificate. It has nothing secret. */
function notVerified(error: unknown): Refusal {
  const why = cleanLine(error instanceof Error ? error.message : '').slice(0, 200)
  return refuse('an attestation cannot be verified', { ...(why !== '' && { warning: `${why}.` }) })
}

function refuse(errmsg: string, options: { warning?: string } = {}): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg, options)
}
