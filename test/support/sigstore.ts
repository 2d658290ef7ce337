import { createHash, generateKeyPairSync, sign as signBytes, X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { initializeCA, initializeCTLog, initializeTLog } from '@sigstore/mock'
import { afterAll } from 'vitest'

/** The site whose CI signs. */
const site = 'http://ci.test'
const logUrl = 'https://log.test'
const payloadType = 'application/vnd.in-toto+json'

/** What a certificate says about a job: the numbers of the extensions below 1.3.6.1.4.1.57264.1. */
export type CertificateWords = Record<number, string>

/** Returns what certificates say about the job of `jobClaims`, whose issuer is `issuer`. */
export function jobWords(issuer: string): CertificateWords {
  const { origin } = new URL(issuer)
  const workflow = `${origin}/acme/lib/.github/workflows/release.yml@refs/tags/v1.0.0`
  return {
    8: issuer,
    9: workflow,
    12: `${origin}/acme/lib`,
    13: '9fceb02d0ae598e95dc970b74767f19372d61af8',
    14: 'refs/tags/v1.0.0',
    15: '17',
    17: '4',
    18: workflow,
    20: 'push',
    21: `${origin}/acme/lib/actions/runs/99/attempts/1`,
  }
}

/** A statement about an archive. */
export function statementAbout(archive: Buffer, others: Record<string, unknown> = {}) {
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: [{ name: 'package.zip', digest: { sha256: sha256Of(archive).toString('hex') } }],
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: { buildDefinition: { buildType: `${site}/workflow/v1` } },
    ...others,
  }
}

/** A bundle, as tools that sign write it. */
export interface TestBundle {
  mediaType: string
  verificationMaterial: {
    certificate: { rawBytes: string }
    tlogEntries: Record<string, unknown>[]
  }
  dsseEnvelope: { payload: string; payloadType: string; signatures: { sig: string }[] }
}

/** Returns the attestation object of PEP 740 for a bundle. */
export function asAttestation({ verificationMaterial, dsseEnvelope }: TestBundle) {
  return {
    version: 1,
    verification_material: {
      certificate: verificationMaterial.certificate.rawBytes,
      transparency_entries: verificationMaterial.tlogEntries,
    },
    envelope: { statement: dsseEnvelope.payload, signature: dsseEnvelope.signatures[0]?.sig },
  }
}

/** A Sigstore with its own authority and logs. */
export interface TestSigstore {
  /** Its trusted root, as JSON. */
  root: Record<string, unknown>
  /** A file with the trusted root. */
  rootFile: string
  /** Signs a statement as a job. */
  sign: (statement: object, words: CertificateWords, options?: SignOptions) => Promise<TestBundle>
}

interface SignOptions {
  /** When the log takes the signature. Now, by default. */
  loggedAt?: Date
  isCertificateLogged?: boolean
}

/** Starts a Sigstore for a test file. */
export async function aSigstore(): Promise<TestSigstore> {
  const [authorityKeys, certificateLogKeys, logKeys] = ['P-384', 'P-256', 'P-256'].map((namedCurve) =>
    generateKeyPairSync('ec', { namedCurve }),
  ) as [KeyPair, KeyPair, KeyPair]
  const certificateLog = await initializeCTLog(certificateLogKeys)
  const authority = await initializeCA(authorityKeys, certificateLog)
  const silentAuthority = await initializeCA(authorityKeys)
  const logPublicKey = logKeys.publicKey.export({ format: 'der', type: 'spki' })
  const start = new Date(Date.now() - 86_400_000).toISOString()
  const logOf = (baseUrl: string, key: Buffer) => ({
    baseUrl,
    hashAlgorithm: 'SHA2_256',
    publicKey: {
      rawBytes: key.toString('base64'),
      keyDetails: 'PKIX_ECDSA_P256_SHA_256',
      validFor: { start },
    },
    logId: { keyId: sha256Of(key).toString('base64') },
  })
  const certificateOf = ({ rootCertificate }: { rootCertificate: ArrayBufferView }) => ({
    subject: { organization: 'sigstore.mock', commonName: 'sigstore' },
    uri: 'https://authority.test',
    certChain: { certificates: [{ rawBytes: toBase64(rootCertificate) }] },
    validFor: { start },
  })
  const root = {
    mediaType: 'application/vnd.dev.sigstore.trustedroot+json;version=0.1',
    tlogs: [logOf(`${logUrl}/`, logPublicKey)],
    certificateAuthorities: [certificateOf(authority), certificateOf(silentAuthority)],
    ctlogs: [logOf('https://certificates.test', Buffer.from(certificateLog.publicKey))],
    timestampAuthorities: [],
  }
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-root-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  const rootFile = join(folder, 'trusted-root.json')
  writeFileSync(rootFile, JSON.stringify(root))

  async function sign(
    statement: object,
    words: CertificateWords,
    { loggedAt, isCertificateLogged = true }: SignOptions = {},
  ): Promise<TestBundle> {
    const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const issue = () =>
      (isCertificateLogged ? authority : silentAuthority).issueCertificate({
        publicKey: keys.publicKey.export({ format: 'der', type: 'spki' }),
        subjectAltName: words[9] ?? site,
        extensions: Object.entries(words).map(([number, value]) => ({
          oid: `1.3.6.1.4.1.57264.1.${number}`,
          value,
        })),
      })
    let certificate = await issue()
    // The mock encodes one of about 400 signatures in a way that OpenSSL refuses.
    while (!new X509Certificate(Buffer.from(toBase64(certificate), 'base64')).verify(authorityKeys.publicKey))
      certificate = await issue()
    const payload = Buffer.from(JSON.stringify(statement))
    const header = `DSSEv1 ${payloadType.length} ${payloadType} ${payload.length} `
    const signature = signBytes('sha256', Buffer.concat([Buffer.from(header), payload]), keys.privateKey)
    // The present moment is taken here: an entry must not be older than its certificate, by the second.
    const log = await initializeTLog(logUrl, logKeys, loggedAt ?? new Date())
    const pem = `-----BEGIN CERTIFICATE-----\n${toBase64(certificate)}\n-----END CERTIFICATE-----\n`
    const entries = await log.log({
      apiVersion: '0.0.1',
      kind: 'dsse',
      spec: {
        envelopeHash: { algorithm: 'sha256', value: sha256Of(payload).toString('hex') },
        payloadHash: { algorithm: 'sha256', value: sha256Of(payload).toString('hex') },
        signatures: [
          { signature: signature.toString('base64'), verifier: Buffer.from(pem).toString('base64') },
        ],
      },
    })
    const [entry] = Object.values(entries) as unknown as LoggedEntry[]
    const proof = entry?.verification?.inclusionProof
    if (!entry || !proof) throw new Error('the log has no proof')
    return {
      mediaType: 'application/vnd.dev.sigstore.bundle.v0.3+json',
      verificationMaterial: {
        certificate: { rawBytes: toBase64(certificate) },
        tlogEntries: [
          {
            logIndex: String(entry.logIndex),
            logId: { keyId: Buffer.from(entry.logID, 'hex').toString('base64') },
            kindVersion: { kind: 'dsse', version: '0.0.1' },
            integratedTime: String(entry.integratedTime),
            inclusionPromise: { signedEntryTimestamp: entry.verification?.signedEntryTimestamp },
            inclusionProof: {
              logIndex: String(proof.logIndex),
              rootHash: Buffer.from(proof.rootHash, 'hex').toString('base64'),
              treeSize: String(proof.treeSize),
              hashes: proof.hashes.map((hash) => Buffer.from(hash, 'hex').toString('base64')),
              checkpoint: { envelope: proof.checkpoint },
            },
            canonicalizedBody: entry.body,
          },
        ],
      },
      dsseEnvelope: {
        payload: payload.toString('base64'),
        payloadType,
        signatures: [{ sig: signature.toString('base64') }],
      },
    }
  }

  return { root, rootFile, sign }
}

/** An entry, as the mock of the log returns it. Hashes are hexadecimal. */
interface LoggedEntry {
  body: string
  integratedTime: number
  logID: string
  logIndex: number
  verification?: {
    signedEntryTimestamp: string
    inclusionProof: {
      logIndex: number
      rootHash: string
      treeSize: number
      hashes: string[]
      checkpoint: string
    }
  }
}

type KeyPair = ReturnType<typeof generateKeyPairSync>

function sha256Of(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest()
}

function toBase64(view: ArrayBufferView): string {
  return Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString('base64')
}
