import { readFileSync } from 'node:fs'
import { TrustedRoot } from '@sigstore/protobuf-specs'
import { toTrustMaterial, Verifier } from '@sigstore/verify'
import { openRereadFile } from '../domain/reread-file.ts'

/** A trusted root of Sigstore, ready to verify with. */
export interface TrustedSigstore {
  verifier: Verifier
  /** The base URLs of its transparency logs, by the ids of the logs in base64. */
  logUrls: ReadonlyMap<string, string>
}

/** Returns the trusted roots of the operator. */
export type TrustedRoots = () => readonly TrustedSigstore[]

const setting = 'TRUSTED_ROOT_FILE'

/**
 * Opens the file of trusted roots: one in JSON, or several, one a line. The file is read again when it has changed. Throws an
 * Error that names the setting when the file cannot be used; later `onError` gets it. Null without a file.
 */
export function openTrustedRoots(path: string | null, onError: (error: Error) => void): TrustedRoots | null {
  return path === null ? null : openRereadFile(path, readTrustedRoots, onError)
}

function readTrustedRoots(path: string): TrustedSigstore[] {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`${setting} ${path} cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
  try {
    const roots = parseRoots(text)
    if (roots.length > 0) return roots.map(readRoot)
  } catch (cause) {
    throw new Error(`${setting} ${path} has no trusted root of Sigstore`, { cause })
  }
  throw new Error(`${setting} ${path} is empty`)
}

function parseRoots(text: string): unknown[] {
  try {
    return [JSON.parse(text)]
  } catch {
    return text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line): unknown => JSON.parse(line))
  }
}

function readRoot(json: unknown): TrustedSigstore {
  const root = TrustedRoot.fromJSON(json)
  if (root.certificateAuthorities.length === 0) throw new Error('it names no certificate authority')
  const logUrls = root.tlogs.map(
    ({ logId, baseUrl }) => [logId?.keyId.toString('base64') ?? '', baseUrl.replace(/\/+$/, '')] as const,
  )
  // The library's own thresholds: one entry of a transparency log, one timestamp, and one of a certificate's log.
  return { verifier: new Verifier(toTrustMaterial(root)), logUrls: new Map(logUrls) }
}
