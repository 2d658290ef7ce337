import type { Signer } from '@sigstore/verify'
import { type Claims, type PublisherTerms, siteOfIssuer } from './providers.ts'

/** The extensions of certificates that Fulcio issues, all below 1.3.6.1.4.1.57264.1. */
const extensions = {
  issuer: 8,
  buildSigner: 9,
  repository: 12,
  commit: 13,
  ref: 14,
  repositoryId: 15,
  ownerId: 17,
  buildConfig: 18,
  event: 20,
  run: 21,
} as const

/**
 * Returns the claims of the identity token for which Fulcio has issued a certificate, as far as the certificate repeats them.
 * Fulcio puts the URL of the CI's site before the names of projects and workflows.
 */
export function claimsOfCertificate(
  { provider, issuer }: Pick<PublisherTerms, 'provider' | 'issuer'>,
  { identity }: Pick<Signer, 'identity'>,
): Claims {
  const site = `${siteOfIssuer(provider, issuer)}/`
  const values = new Map(
    (identity?.oids ?? []).map(({ oid, value }) => [oid?.id.join('.') ?? '', readText(value)]),
  )
  const read = (name: keyof typeof extensions) => values.get(`1.3.6.1.4.1.57264.1.${extensions[name]}`)
  const belowSite = (name: keyof typeof extensions) => {
    const url = read(name)
    return url?.startsWith(site) ? url.slice(site.length) : url
  }
  const common = { iss: read('issuer'), ref: read('ref'), sha: read('commit') }
  if (provider === 'gitlab') {
    return {
      ...common,
      project_path: belowSite('repository'),
      project_id: read('repositoryId'),
      namespace_id: read('ownerId'),
      ci_config_ref_uri: read('buildConfig')?.replace(/^https?:\/\//, ''),
    }
  }
  return {
    ...common,
    repository: belowSite('repository'),
    repository_id: read('repositoryId'),
    repository_owner_id: read('ownerId'),
    workflow_ref: belowSite('buildConfig'),
    job_workflow_ref: belowSite('buildSigner'),
    event_name: read('event'),
    run_id: /\/actions\/runs\/(\d+)/.exec(read('run') ?? '')?.[1],
  }
}

/** Reads a UTF8String in DER. Undefined for anything else. */
function readText(der: Buffer): string | undefined {
  const [tag, first = 0] = der
  // From 128 bytes on, the first byte says how many bytes the length has.
  const lengthBytes = first < 0x80 ? 0 : first - 0x80
  if (tag !== 0x0c || lengthBytes > 2) return undefined
  const length = lengthBytes === 0 ? first : der.readUIntBE(2, lengthBytes)
  const text = der.subarray(2 + lengthBytes)
  return text.length === length ? text.toString() : undefined
}
