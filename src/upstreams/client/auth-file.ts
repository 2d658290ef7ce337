import { readFileSync } from 'node:fs'
import * as z from 'zod'
import { cleanLine } from '../../domain/plain-text.ts'
import { openRereadFile } from '../../domain/reread-file.ts'

const Login = z.object({ username: z.string(), password: z.string() })
const GitLabLogin = z.object({ username: z.string(), token: z.string() })
const AuthFile = z.object({
  'http-basic': z.record(z.string(), Login).default({}),
  bearer: z.record(z.string(), z.string()).default({}),
  'github-oauth': z.record(z.string(), z.string()).default({}),
  'gitlab-oauth': z.record(z.string(), z.string()).default({}),
  'gitlab-token': z.record(z.string(), z.union([z.string(), GitLabLogin])).default({}),
})
type Credentials = z.output<typeof AuthFile>

/** Returns the headers with the credentials for a URL. None for a host without credentials. */
export type Authorize = (url: URL) => Record<string, string>

/** What the reader of the file reports. */
export interface AuthFileEvents {
  /** Is called when the file becomes unreadable later. The last content stays valid. */
  onError?: (error: Error) => void
  /** Is called at each read of a file with kinds of credentials that svc does not use, with their names. */
  onUnusedKinds?: (kinds: string[]) => void
}

/**
 * Opens a file of credentials in the format of Composer's auth.json: `http-basic`, `bearer`, `github-oauth`,
 * `gitlab-oauth` and `gitlab-token`, by host or host:port. Reads the file again when it has changed, so that credentials
 * can be replaced without a restart. Throws an Error that contains no secret.
 */
export function openAuthFile(
  path: string | null,
  { onError = () => {}, onUnusedKinds = () => {} }: AuthFileEvents = {},
): Authorize {
  if (path === null) return () => ({})
  const read = () => {
    const { credentials, unusedKinds } = parseAuthFile(path)
    if (unusedKinds.length > 0) onUnusedKinds(unusedKinds)
    return credentials
  }
  const latest = openRereadFile(path, read, onError)
  return (url) => headersFor(url, latest())
}

function headersFor({ host }: URL, credentials: Credentials): Record<string, string> {
  const of = <T>(logins: Record<string, T>, key = host) =>
    Object.hasOwn(logins, key) ? (logins[key] as T) : null
  const login = of(credentials['http-basic'])
  if (login !== null) return basic(login.username, login.password)
  const bearer = of(credentials.bearer) ?? of(credentials['gitlab-oauth'])
  if (bearer !== null) return { authorization: `Bearer ${bearer}` }
  const gitLab = of(credentials['gitlab-token'])
  if (typeof gitLab === 'string') return { 'private-token': gitLab }
  if (gitLab !== null) return basic(gitLab.username, gitLab.token)
  const gitHub = of(credentials['github-oauth'], host === 'api.github.com' ? 'github.com' : host)
  return gitHub === null ? {} : { authorization: `token ${gitHub}` }
}

function basic(username: string, password: string): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` }
}

function parseAuthFile(path: string): { credentials: Credentials; unusedKinds: string[] } {
  let content: unknown
  try {
    content = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    const why = error instanceof SyntaxError ? 'it is not JSON' : (error as NodeJS.ErrnoException).code
    throw new Error(`UPSTREAM_AUTH_FILE ${path} cannot be read: ${why}`)
  }
  const read = AuthFile.safeParse(content)
  if (read.success) return { credentials: read.data, unusedKinds: unusedKindsOf(content as object) }
  const where = read.error.issues.map((issue) => issue.path.join('.') || 'the whole file').join(', ')
  throw new Error(`UPSTREAM_AUTH_FILE ${path} does not have the format of Composer's auth.json: ${where}`)
}

/** Returns the names of the kinds that svc does not use, without the empty ones that Composer writes. */
function unusedKindsOf(content: object): string[] {
  return Object.entries(content)
    .filter(([kind]) => !Object.hasOwn(AuthFile.shape, kind))
    .filter(([, values]) => Object.keys(Object(values)).length > 0)
    .map(([kind]) => cleanLine(kind.slice(0, 50)))
    .slice(0, 20)
}
