/** The reason why a password or a second factor was rejected, with the status and headers of the page. */
export interface CredentialRefusal {
  status: 403 | 409 | 429 | 503
  headers: Readonly<Record<string, string>>
  problem: string
  /** True after too many wrong passwords. */
  isLocked?: true
}

/** Returns the refusal while too many wrong attempts block further ones for some seconds. */
export function tooManyAttempts(seconds: number, sentence: string, otherWay = ''): CredentialRefusal {
  const minutes = Math.ceil(seconds / 60)
  const problem = `${sentence} Try again in ${minutes === 1 ? 'a minute' : `${minutes} minutes`}${otherWay}.`
  return { status: 429, headers: { 'retry-after': `${seconds}` }, problem }
}
