import { readFile } from 'node:fs/promises'
import { type Dispatcher, request } from 'undici'
import * as z from 'zod'
import type { BucketKeys, CredentialSource } from '../domain/bucket.ts'
import { singleFlight } from '../domain/single-flight.ts'
import { element } from './xml-element.ts'

/*
 * The keys of a bucket. Those of a role are temporary: this file gets them from the service that has them, and renews them
 * before they expire. The services are those that the programs of AWS use:
 *
 *   instance       the metadata service of a virtual machine, version 2
 *   container      the agent of ECS or of EKS Pod Identity
 *   web-identity   AssumeRoleWithWebIdentity of the security token service, with the token of a Kubernetes service account
 */

/** Temporary keys are renewed in the second half of their life, and in the last minutes of a long one. */
const renewedMilliseconds = 20 * 60_000
/** The pause between two attempts to renew keys that still work. A metadata service has new ones five minutes before. */
const pauseMilliseconds = 60_000
/** Keys are not used in their last seconds: the clocks of two machines differ, and a request takes time. */
const spareMilliseconds = 10_000
/** These services are on this machine or near it. A virtual machine without one must not wait long. */
const patienceMilliseconds = 3_000
const maxResponseBytes = 64 * 1024

/** The keys of one bucket. */
export interface BucketCredentials {
  /** Returns keys that work now. Throws an Error that names the service when it gives none. */
  keys: () => Promise<BucketKeys>
  /** Lets the next call get new keys, because the store has refused the current ones. */
  forget: () => void
}

interface TemporaryKeys {
  keys: BucketKeys
  expiresAt: number
  /** From then on they are renewed. */
  renewAt: number
}

/** Opens the credentials of a bucket. Sends no request before the keys are needed. */
export function openCredentials(source: CredentialSource): BucketCredentials {
  if (source.kind === 'keys') return { keys: async () => source.keys, forget: () => {} }
  let current: TemporaryKeys | null = null
  /** Concurrent calls share one request. */
  const renewals = singleFlight<TemporaryKeys>()
  let triedAt = Number.NEGATIVE_INFINITY

  /** Gets new keys. */
  function renew(from: Exclude<CredentialSource, { kind: 'keys' }>): Promise<TemporaryKeys> {
    triedAt = Date.now()
    return renewals.share('keys', async () => {
      current = await fetchKeys(from)
      return current
    })
  }

  return {
    async keys() {
      const now = Date.now()
      if (current === null || current.expiresAt - spareMilliseconds <= now) return (await renew(source)).keys
      const { keys, renewAt } = current
      const isDue = renewAt <= now && triedAt + pauseMilliseconds <= now && !renewals.running('keys')
      if (!isDue) return keys
      return renew(source).then(
        (renewed) => renewed.keys,
        // The service may be back before these keys expire.
        () => keys,
      )
    },
    forget() {
      current = null
    },
  }
}

async function fetchKeys(source: Exclude<CredentialSource, { kind: 'keys' }>): Promise<TemporaryKeys> {
  const fetched = await fetchFrom(source)
  const expiresAt = fetched.expiresAt.getTime()
  const life = Math.max(0, expiresAt - Date.now())
  return { keys: fetched.keys, expiresAt, renewAt: expiresAt - Math.min(renewedMilliseconds, life / 2) }
}

interface FetchedKeys {
  keys: BucketKeys
  expiresAt: Date
}

function fetchFrom(source: Exclude<CredentialSource, { kind: 'keys' }>): Promise<FetchedKeys> {
  if (source.kind === 'instance') return fetchFromInstance(source.endpoint)
  if (source.kind === 'container') return fetchFromContainer(source)
  return fetchWithWebIdentity(source)
}

async function fetchFromInstance(endpoint: string): Promise<FetchedKeys> {
  const token = await ask(`${endpoint}/latest/api/token`, {
    method: 'PUT',
    headers: { 'x-aws-ec2-metadata-token-ttl-seconds': '300' },
  })
  const headers = { 'x-aws-ec2-metadata-token': token.trim() }
  const roles = `${endpoint}/latest/meta-data/iam/security-credentials/`
  const [role = ''] = (await ask(roles, { headers })).trim().split('\n')
  return readJsonKeys(roles, await ask(roles + encodeURIComponent(role), { headers }))
}

async function fetchFromContainer({
  url,
  token,
  tokenFile,
}: Extract<CredentialSource, { kind: 'container' }>): Promise<FetchedKeys> {
  // The file is read each time, because its token changes.
  const authorization = tokenFile === null ? token : (await readTokenFile(tokenFile)).trim()
  return readJsonKeys(url, await ask(url, { headers: authorization === null ? {} : { authorization } }))
}

async function fetchWithWebIdentity({
  endpoint,
  roleArn,
  sessionName,
  tokenFile,
}: Extract<CredentialSource, { kind: 'web-identity' }>): Promise<FetchedKeys> {
  const form = new URLSearchParams({
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: roleArn,
    RoleSessionName: sessionName,
    WebIdentityToken: (await readTokenFile(tokenFile)).trim(),
  })
  const text = await ask(`${endpoint}/`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: form.toString(),
  })
  return readKeys(endpoint, {
    AccessKeyId: element(text, 'AccessKeyId'),
    SecretAccessKey: element(text, 'SecretAccessKey'),
    Token: element(text, 'SessionToken'),
    Expiration: element(text, 'Expiration'),
  })
}

const GivenKeys = z.object({
  AccessKeyId: z.string().min(1),
  SecretAccessKey: z.string().min(1),
  Token: z.string().min(1),
  Expiration: z.iso.datetime({ offset: true }),
})

function readJsonKeys(url: string, text: string): FetchedKeys {
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    content = null
  }
  return readKeys(url, content)
}

function readKeys(url: string, content: unknown): FetchedKeys {
  const read = GivenKeys.safeParse(content)
  if (!read.success) throw new Error(`${new URL(url).origin} gave no temporary keys for the archive store`)
  const { AccessKeyId, SecretAccessKey, Token, Expiration } = read.data
  return {
    keys: { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: Token },
    expiresAt: new Date(Expiration),
  }
}

async function readTokenFile(path: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`the token file ${path} of the archive store's role cannot be read (${error.code})`)
  })
}

/** Sends a request to such a service, and returns the text of the response. */
async function ask(
  url: string,
  options: { method?: 'PUT' | 'POST'; headers: Record<string, string>; body?: string },
): Promise<string> {
  const { origin } = new URL(url)
  try {
    const signal = AbortSignal.timeout(patienceMilliseconds)
    const response = await request(url, { method: 'GET', ...options, signal })
    const text = await readText(response)
    if (response.statusCode === 200) return text
    const code = element(text, 'Code')
    throw new Error(`it responds with ${response.statusCode}${code === undefined ? '' : ` ${code}`}`)
  } catch (error) {
    const { name, message } = error as Error
    const why = name === 'TimeoutError' ? 'it does not respond' : message
    throw new Error(`the keys of the archive store cannot be had from ${origin}: ${why}`)
  }
}

async function readText({ body }: Dispatcher.ResponseData): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > maxResponseBytes) throw new Error('its response is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
