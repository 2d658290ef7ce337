import { readFileSync, statSync } from 'node:fs'
import { z } from 'zod'

const AuthFile = z.object({
  'http-basic': z.record(z.string(), z.object({ username: z.string(), password: z.string() })).default({}),
  bearer: z.record(z.string(), z.string()).default({}),
  'github-oauth': z.record(z.string(), z.string()).default({}),
})

/** Returns the Authorization header for a URL. Null for a host without credentials. */
export type Authorize = (url: URL) => string | null

/**
 * Opens a file of credentials in the format of Composer's auth.json: `http-basic`, `bearer` and `github-oauth`, by host
 * or host:port. Reads the file again when it has changed, so that credentials can be replaced without a restart. Throws
 * an Error that contains no secret. If the file becomes unreadable later, `onError` is called and the last content
 * stays valid.
 */
export function openAuthFile(path: string | null, onError: (error: Error) => void): Authorize {
  if (path === null) return () => null
  let version = versionOf(path)
  let credentials = parseAuthFile(path)
  return (url) => {
    const latest = versionOf(path)
    if (latest !== version) {
      version = latest
      try {
        credentials = parseAuthFile(path)
      } catch (error) {
        onError(error as Error)
      }
    }
    return authorizationFor(url, credentials)
  }
}

/** Returns a text that changes when the file is written or replaced. */
function versionOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false })
  return found ? `${found.ino} ${found.mtimeMs} ${found.size}` : ''
}

function authorizationFor(
  { host }: URL,
  { 'http-basic': basic, bearer, 'github-oauth': github }: z.output<typeof AuthFile>,
): string | null {
  const login = Object.hasOwn(basic, host) ? basic[host] : undefined
  if (login) return `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`
  if (Object.hasOwn(bearer, host)) return `Bearer ${bearer[host]}`
  const githubHost = host === 'api.github.com' ? 'github.com' : host
  return Object.hasOwn(github, githubHost) ? `token ${github[githubHost]}` : null
}

function parseAuthFile(path: string): z.output<typeof AuthFile> {
  let content: unknown
  try {
    content = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    const why = error instanceof SyntaxError ? 'it is not JSON' : (error as NodeJS.ErrnoException).code
    throw new Error(`UPSTREAM_AUTH_FILE ${path} cannot be read: ${why}`)
  }
  const read = AuthFile.safeParse(content)
  if (read.success) return read.data
  const where = read.error.issues.map((issue) => issue.path.join('.') || 'the whole file').join(', ')
  throw new Error(`UPSTREAM_AUTH_FILE ${path} does not have the format of Composer's auth.json: ${where}`)
}
