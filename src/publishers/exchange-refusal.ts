import type { ClaimDifference } from './providers.ts'

/** Why an identity token gets no token: the errors of RFC 6749 §5.2 and RFC 8693 §2.2.2. */
export type ExchangeError = 'invalid_request' | 'invalid_target' | 'invalid_grant'

/** A refused exchange. The message is for the holder of the identity token. */
export class ExchangeRefusal extends Error {
  readonly code: ExchangeError

  constructor(code: ExchangeError, message: string) {
    super(message)
    this.code = code
  }
}

/** Returns the refusal for claims that are not as expected. */
export function claimsDiffer(differs: readonly ClaimDifference[]): ExchangeRefusal {
  return new ExchangeRefusal('invalid_grant', describeDifferences(differs))
}

/** Names each claim that is not as expected, with the expected and the given value. */
export function describeDifferences(differs: readonly ClaimDifference[]): string {
  return differs
    .map(
      ({ claim, expected, given }) =>
        `The claim ${claim} differs: expected ${expected}, given ${given ?? 'nothing'}.`,
    )
    .join(' ')
}
