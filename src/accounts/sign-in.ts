import type { Queryable } from '../database/database.ts'
import {
  countFailure,
  type FailureLimit,
  findBlock,
  forgetFailures,
  networkOf,
} from '../http/failure-limit.ts'
import { type Credentials, findCredentials, renewPasswordHash } from './accounts.ts'
import { hashPassword, isPassword, needsRehash, nobodysHash } from './passwords.ts'

/** Why somebody may not sign in, for the page and its status. */
export interface SignInRefusal {
  status: 403 | 429
  headers: Record<string, string>
  problem: string
}

/**
 * Checks a username or email with its password, from an address. An unknown account costs the same work as a
 * known one, and after too many failures nothing is checked any more (DESIGN §8).
 */
export async function checkSignIn(
  db: Queryable,
  login: string,
  password: string,
  address: string,
): Promise<Credentials | SignInRefusal> {
  const network = networkOf(address)
  const credentials = await findCredentials(db, login, network)
  const limits = limitsOf(credentials?.accountId ?? login.toLowerCase(), network)
  // Nobody is kept out by what others do elsewhere, from a network that they are signed in from.
  const counting = credentials?.isKnownNetwork ? [limits.here, limits.network] : Object.values(limits)
  const block = await findBlock(db, counting)
  if (block > 0) return tooManyFailures(block)

  const isTheirs = await isPassword(password, credentials?.passwordHash ?? nobodysHash)
  if (!credentials || !isTheirs) {
    const newBlock = await countFailure(db, counting)
    return newBlock > 0 ? tooManyFailures(newBlock) : wrongPassword()
  }
  // Many guesses sent at once all pass the first look; whichever is right after the limit is held here.
  const lateBlock = await findBlock(db, counting)
  if (lateBlock > 0) return tooManyFailures(lateBlock)
  await forgetFailures(db, [limits.here])
  if (needsRehash(credentials.passwordHash)) {
    await renewPasswordHash(db, credentials, await hashPassword(password))
  }
  return credentials
}

/**
 * How many wrong passwords are borne: for one account from one network, from one network for any accounts, and
 * for one account from anywhere. SPEC §8 shows no limits.
 */
function limitsOf(account: string, network: string): Record<'here' | 'network' | 'account', FailureLimit> {
  return {
    here: { subject: `sign-in ${account} from ${network}`, failures: 10, windowSeconds: 900 },
    network: { subject: `sign-in from ${network}`, failures: 100, windowSeconds: 900 },
    account: { subject: `sign-in ${account}`, failures: 100, windowSeconds: 3600 },
  }
}

function wrongPassword(): SignInRefusal {
  return { status: 403, headers: {}, problem: 'This username and password do not match.' }
}

function tooManyFailures(seconds: number): SignInRefusal {
  const minutes = Math.ceil(seconds / 60)
  const problem = `Too many wrong passwords. Try again in ${minutes === 1 ? 'a minute' : `${minutes} minutes`}.`
  return { status: 429, headers: { 'retry-after': `${seconds}` }, problem }
}
