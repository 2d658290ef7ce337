import { sealedRowsOf } from '../database/sealed-rows.ts'

/** The secrets of a source. */
export interface SourceSecrets {
  /** The secret with which the Git server signs its hooks. */
  hookSecret: string
  /** `user:password`, for HTTP Basic. */
  login: string | null
  /** A private key for SSH. */
  sshKey: string | null
}

/** The secrets of sources. */
export const sourceSecrets = sealedRowsOf<SourceSecrets>(
  'source',
  'remove these sources with svc source remove',
)
