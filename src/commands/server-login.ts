import { mkdir, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'
import { cleanLine } from '../domain/plain-text.ts'
import { commandLineClientId } from '../oauth/command-line-client.ts'

/** The tokens of `svc login` at one server. */
export interface ServerLogin {
  username: string
  tokenEndpoint: string
  revocationEndpoint: string
  accessToken: string
  refreshToken: string
  /** Milliseconds since 1970. */
  expiresAt: number
}

/** The file of all logins. */
interface Logins {
  /** The URL of the latest login: that of commands without `--server`. */
  latest: string | null
  servers: Record<string, ServerLogin>
}

/** The response of the token endpoint. */
export interface IssuedPair {
  access_token: string
  refresh_token: string
  expires_in: number
}

const requestMilliseconds = 30_000
/** A lock that is older belongs to a process that was killed. */
const staleLockMilliseconds = 60_000
/** A token that expires sooner is refreshed first. */
const leastRemainingMilliseconds = 60_000

/** Returns the folder of the command line's files: `svc` below `$XDG_CONFIG_HOME`, by default `~/.config`. */
function configFolder(): string {
  return join(process.env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'svc')
}

/** Returns the path of the file with the logins. Only its user can read it. */
export function loginFile(): string {
  return join(configFolder(), 'login.json')
}

/** Returns a server's URL in one form. Throws for a URL that tokens must not be sent to: http that is not on loopback. */
export function readServerUrl(text: string): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash)
    throw new Error(`${JSON.stringify(text)} is no URL of a server, such as https://svc.example.com.`)
  const isLoopback = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)
  if (url.protocol === 'http:' && !isLoopback)
    throw new Error(`${text} is not encrypted, so others in the network could read the token. Use https.`)
  return url.href.replace(/\/+$/, '')
}

/** Returns the URL of the given server, or of the latest login, if there is a login. Null without one. */
export async function findServer(given: string | undefined): Promise<string | null> {
  const { latest, servers } = await readLogins()
  const url = given === undefined ? latest : readServerUrl(given)
  return url !== null && servers[url] !== undefined ? url : null
}

/** Like `findServer`, but throws without a login. */
export async function theServer(given: string | undefined): Promise<string> {
  const found = await findServer(given)
  if (found !== null) return found
  throw new Error(`There is no login${given ? ` to ${given}` : ''}. Run: svc login ${given ?? 'https://…'}`)
}

/** Stores a login, and makes its server that of commands without `--server`. */
export async function storeLogin(server: string, login: ServerLogin): Promise<void> {
  await changeLogins((logins) => ({ latest: server, servers: { ...logins.servers, [server]: login } }))
}

/** Removes a login. Returns it. Null without one. */
export async function removeLogin(server: string): Promise<ServerLogin | null> {
  let removed: ServerLogin | null = null
  await changeLogins(({ latest, servers: { [server]: login = null, ...servers } }) => {
    removed = login
    return { latest: latest === server ? (Object.keys(servers)[0] ?? null) : latest, servers }
  })
  return removed
}

/**
 * Returns the login of a server with an access token that works, for at least a minute or, if `isNew`, for its whole
 * lifetime. Two commands at once refresh one after the other, so that the second one uses the pair of the first.
 */
export async function freshLogin(server: string, { isNew = false } = {}): Promise<ServerLogin> {
  const before = await loginOf(server)
  if (!isNew && before.expiresAt - Date.now() > leastRemainingMilliseconds) return before
  let login = before
  await changeLogins(async (logins) => {
    login = logins.servers[server] ?? before
    // Another command has refreshed it while this one waited.
    if (login.refreshToken !== before.refreshToken) return logins
    const response = await postForm(login.tokenEndpoint, {
      grant_type: 'refresh_token',
      refresh_token: login.refreshToken,
    })
    if (response.status === 400 || response.status === 401)
      throw new Error(`The login to ${server} has ended. Run: svc login ${server}`)
    login = { ...login, ...tokensOf(await readJson<IssuedPair>(response)) }
    return { ...logins, servers: { ...logins.servers, [server]: login } }
  })
  return login
}

async function loginOf(server: string): Promise<ServerLogin> {
  const login = (await readLogins()).servers[server]
  if (!login) throw new Error(`There is no login to ${server}. Run: svc login ${server}`)
  return login
}

/** Returns the tokens of a response as a login has them. */
export function tokensOf({ access_token, refresh_token, expires_in }: IssuedPair) {
  return { accessToken: access_token, refreshToken: refresh_token, expiresAt: Date.now() + expires_in * 1000 }
}

/** Sends a form to an OAuth endpoint as the command line. */
export async function postForm(url: string, form: Record<string, string>): Promise<Response> {
  return send(url, {
    method: 'POST',
    body: new URLSearchParams({ client_id: commandLineClientId, ...form }),
  })
}

/** Sends a request. Throws with a sentence when there is no response. Redirects are not followed: they could lead a token away. */
export async function send(url: string, options: RequestInit & { duplex?: 'half' } = {}): Promise<Response> {
  try {
    return await fetch(url, {
      redirect: 'error',
      signal: AbortSignal.timeout(requestMilliseconds),
      ...options,
    })
  } catch (error) {
    const { message, cause } = error as Error
    const reason = cause instanceof Error ? cause.message : message
    throw new Error(`${new URL(url).origin} does not respond: ${reason}`)
  }
}

/** Reads a JSON response. Throws with the server's sentence when it is an error. */
export async function readJson<Body>(response: Response): Promise<Body> {
  const body = await readObject(response)
  if (response.ok && body !== null) return body as Body
  const said = saidIn(body)
  throw new Error(`The server returned ${response.status}${said ? `: ${said}` : ''}.`.replace('..', '.'))
}

/** Reads the JSON of a response. Null when it is none: a proxy may send a page. */
export async function readObject(response: Response): Promise<Record<string, unknown> | null> {
  try {
    return JSON.parse(await response.text()) as Record<string, unknown> | null
  } catch {
    return null
  }
}

/** Returns the sentence in the body of an error, as one line that cannot control the terminal. Null without one. */
export function saidIn(body: Record<string, unknown> | null): string | null {
  const said = body?.['errmsg'] ?? body?.['error_description'] ?? body?.['error']
  return typeof said === 'string' ? cleanLine(said.slice(0, 1000)) : null
}

/** Reads a JSON response of a server that may be anything. Throws unless it has the form of svc's. */
export async function readAs<Schema extends z.ZodType>(
  schema: Schema,
  response: Response,
  server: string,
): Promise<z.output<Schema>> {
  const { success, data } = schema.safeParse(response.status === 404 ? null : await readJson(response))
  if (success) return data
  throw new Error(
    `${server} has no logins of the command line. It is of an earlier release of svc, or another program.`,
  )
}

/** The document about the server as a protected resource (RFC 9728 §2). */
const ResourceMetadata = z.object({ authorization_servers: z.tuple([z.string()]) })

/** The metadata of its authorization server (RFC 8414 §2). */
const ServerMetadata = z.object({
  issuer: z.string(),
  device_authorization_endpoint: z.string(),
  token_endpoint: z.string(),
  revocation_endpoint: z.string(),
})

/**
 * Returns the endpoints of a server. Throws unless all are its own: every installation has the same client id, so that a server
 * could otherwise have the codes and tokens of another one sent to itself.
 */
export async function discover(server: string) {
  const about = await send(`${server}/.well-known/oauth-protected-resource`)
  const [issuer] = (await readAs(ResourceMetadata, about, server)).authorization_servers
  const { origin, pathname } = new URL(ownUrl(server, issuer))
  // RFC 8414 §3.1: the path of the issuer is at the end.
  const url = `${origin}/.well-known/oauth-authorization-server${pathname.replace(/\/$/, '')}`
  const metadata = await readAs(ServerMetadata, await send(url), server)
  ownUrl(server, metadata.issuer)
  if (metadata.issuer !== issuer)
    throw new Error(`The metadata of ${server} is that of another issuer. Ask its operator to repair it.`)
  return {
    deviceEndpoint: ownUrl(server, metadata.device_authorization_endpoint),
    tokenEndpoint: ownUrl(server, metadata.token_endpoint),
    revocationEndpoint: ownUrl(server, metadata.revocation_endpoint),
  }
}

/** Returns a URL that a server has named, normalized, so that a terminal can show it. Throws unless it has the server's origin. */
export function ownUrl(server: string, named: string): string {
  const url = URL.parse(named)
  if (url?.origin === new URL(server).origin) return url.href
  throw new Error(
    `${server} names ${url ? `another server, ${url.origin},` : 'no valid URL'} for the login. Nothing was sent there: sign in to a server at its own URL.`,
  )
}

async function readLogins(): Promise<Logins> {
  try {
    return JSON.parse(await readFile(loginFile(), 'utf8')) as Logins
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { latest: null, servers: {} }
    throw new Error(`${loginFile()} cannot be read: ${(error as Error).message}`)
  }
}

/** Changes the file of logins. The lock makes another command wait; the rename makes a reader see the old or the new one. */
async function changeLogins(change: (logins: Logins) => Logins | Promise<Logins>): Promise<void> {
  await mkdir(configFolder(), { recursive: true, mode: 0o700 })
  const lock = `${loginFile()}.lock`
  await takeLock(lock)
  try {
    await writeSecretFile(loginFile(), `${JSON.stringify(await change(await readLogins()), null, 2)}\n`)
  } finally {
    await rm(lock, { force: true })
  }
}

/** Replaces a file that only its user may read. */
export async function writeSecretFile(path: string, text: string): Promise<void> {
  const written = `${path}.${process.pid}.new`
  await rm(written, { force: true })
  await writeFile(written, text, { mode: 0o600, flag: 'wx' })
  await rename(written, path)
}

async function takeLock(path: string): Promise<void> {
  for (;;) {
    try {
      await (await open(path, 'wx', 0o600)).close()
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const age = await stat(path).then(
      ({ mtimeMs }) => Date.now() - mtimeMs,
      () => 0,
    )
    if (age > staleLockMilliseconds) await rm(path, { force: true })
    else await sleep(50)
  }
}
