import { createReadStream, existsSync } from 'node:fs'
import { mkdir, readFile, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Command, Option } from 'commander'
import * as z from 'zod'
import { cleanLine } from '../domain/plain-text.ts'
import { type JsonOptions, jsonOption } from './options.ts'
import { printResult } from './run.ts'
import {
  discover,
  freshLogin,
  type IssuedPair,
  loginFile,
  ownUrl,
  postForm,
  readAs,
  readJson,
  readObject,
  readServerUrl,
  removeLogin,
  saidIn,
  send,
  storeLogin,
  theServer,
  tokensOf,
  writeSecretFile,
} from './server-login.ts'

/** Returns `--server`: the server of a command that speaks to one. */
export function serverOption(): Option {
  return new Option('--server <url>', 'the server, by default that of the latest svc login')
}

/** The options of a command that speaks to a server. */
export interface ServerOptions extends JsonOptions {
  server?: string
}

/** What a server says about its devices (RFC 8628 §3.2). */
const DeviceCodes = z.object({
  device_code: z.string(),
  user_code: z.string().max(100).transform(cleanLine),
  verification_uri: z.string(),
  verification_uri_complete: z.string(),
  interval: z.number().min(1).max(60).default(5),
})

const User = z.object({ username: z.string().transform(cleanLine) })

/** `svc login <url>` (OPENID 228): the person confirms a code in a browser on any machine. */
export function loginCommand(): Command {
  return new Command('login')
    .description('Sign in to a server from this machine. You confirm a code in a browser, on any machine.')
    .argument('<url>', 'the server, such as https://svc.example.com')
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc login https://svc.example.com')
    .action(async (url: string, options: JsonOptions) => {
      const server = readServerUrl(url)
      const { deviceEndpoint, tokenEndpoint, revocationEndpoint } = await discover(server)
      const codes = await readAs(DeviceCodes, await postForm(deviceEndpoint, {}), server)
      ownUrl(server, codes.verification_uri)
      process.stderr.write(
        `Open ${ownUrl(server, codes.verification_uri_complete)}\nand confirm the code ${codes.user_code}. It is valid for 15 minutes.\n`,
      )
      const pair = tokensOf(await poll(tokenEndpoint, codes))
      const { username } = await readAs(
        User,
        await send(`${server}/api/user`, { headers: { authorization: `Bearer ${pair.accessToken}` } }),
        server,
      )
      await storeLogin(server, { username, tokenEndpoint, revocationEndpoint, ...pair })
      printResult(options, { server, username }, `Signed in to ${server} as ${username}: ${loginFile()}`)
    })
}

/** Polls until the person has decided (RFC 8628 §3.5). Throws the server's sentence after a denial, or when it is too late. */
async function poll(
  tokenEndpoint: string,
  { device_code, interval }: z.output<typeof DeviceCodes>,
): Promise<IssuedPair> {
  for (let seconds = interval; ; ) {
    await sleep(seconds * 1000)
    const response = await postForm(tokenEndpoint, {
      grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
      device_code,
    })
    if (response.ok) return readJson<IssuedPair>(response)
    const body = await readObject(response)
    if (body?.['error'] === 'slow_down') seconds += 5
    else if (body?.['error'] !== 'authorization_pending')
      throw new Error(saidIn(body) ?? `The server returned ${response.status}.`)
  }
}

/** `svc logout`: revokes the token and forgets it. */
export function logoutCommand(): Command {
  return new Command('logout')
    .description('Sign out from a server on this machine. The logins on your other machines stay.')
    .addOption(serverOption())
    .addOption(jsonOption())
    .action(async (options: ServerOptions) => {
      const server = await theServer(options.server)
      const login = await removeLogin(server)
      if (login) await readJson(await postForm(login.revocationEndpoint, { token: login.refreshToken }))
      printResult(options, { server }, `Signed out from ${server}.`)
    })
}

/** `svc whoami`: the account of the login. */
export function whoamiCommand(): Command {
  return new Command('whoami')
    .description('Show the account and the server of the login.')
    .addOption(serverOption())
    .addOption(jsonOption())
    .action(async (options: ServerOptions) => {
      const server = await theServer(options.server)
      const { accessToken } = await freshLogin(server)
      const headers = { authorization: `Bearer ${accessToken}` }
      const user = await readJson<{ username: string }>(await send(`${server}/api/user`, { headers }))
      printResult(options, { server, ...user }, `${user.username} at ${server}`)
    })
}

/** `svc push`: publishes a zip. */
export function pushCommand(): Command {
  return new Command('push')
    .description('Publish a version of a package at the server of the login.')
    .argument('<path>', 'the repository, such as acme/php')
    .argument('<package>', 'the package, such as acme/hello')
    .argument('<version>', 'a Semantic Version, such as 1.0.0')
    .argument('<zip>', 'the archive')
    .addOption(serverOption())
    .addOption(jsonOption())
    .action(async (path: string, name: string, version: string, zip: string, options: ServerOptions) => {
      const server = await theServer(options.server)
      const size = await stat(zip).then(
        (found) => found.size,
        (error: NodeJS.ErrnoException) => {
          throw new Error(`${zip} cannot be read (${error.code}).`)
        },
      )
      const { accessToken } = await freshLogin(server)
      const words = [...path.split('/'), '-', 'packages', 'upload', ...name.split('/'), version]
      const response = await send(`${server}/${words.map(encodeURIComponent).join('/')}`, {
        method: 'PUT',
        headers: {
          authorization: registryAuth(accessToken),
          'content-length': String(size),
        },
        body: Readable.toWeb(createReadStream(zip)) as ReadableStream,
        duplex: 'half',
        signal: AbortSignal.timeout(600_000),
      })
      const pushed = await readJson<object>(response)
      printResult(options, pushed, `${name} ${version} is in ${path}.`)
    })
}

/** What a registry finds (Composer's search.json). Its texts come from packages. */
const Found = z.object({
  results: z.array(
    z.object({
      name: z.string().transform(cleanLine),
      description: z
        .string()
        .nullish()
        .transform((text) => cleanLine(text ?? '')),
    }),
  ),
})

/** `svc search`: the packages of a registry with these words. */
export function searchCommand(): Command {
  return new Command('search')
    .description(
      'Search the packages of a repository, those of its upstreams too, at the server of the login.',
    )
    .argument('<path>', 'the repository, such as acme/php')
    .argument('<words...>', 'words of the name, the description or the keywords')
    .addOption(serverOption())
    .addOption(jsonOption())
    .action(async (path: string, words: string[], options: ServerOptions) => {
      const server = await theServer(options.server)
      const { accessToken } = await freshLogin(server)
      const registry = [...path.split('/').map(encodeURIComponent), '-', 'packages'].join('/')
      const url = `${server}/${registry}/search.json?${new URLSearchParams({ q: words.join(' ') })}`
      const response = await send(url, { headers: { authorization: registryAuth(accessToken) } })
      const found = Found.safeParse(await readJson(response))
      if (!found.success) throw new Error(`${server} has no search for ${path}.`)
      const { results } = found.data
      const lines = results.map(({ name, description }) => [name, description].filter(Boolean).join('  '))
      printResult(options, { items: results }, lines.join('\n') || 'Nothing.')
    })
}

/** Returns the Authorization header for a registry, which takes the token as a password. */
function registryAuth(accessToken: string): string {
  return `Basic ${Buffer.from(`svc:${accessToken}`).toString('base64')}`
}

/** `svc composer-auth`: writes the credentials of the server for Composer. */
export function composerAuthCommand(): Command {
  return new Command('composer-auth')
    .description(
      'Write a new access token into the auth.json of Composer. It lasts 8 hours: run it again after that.',
    )
    .option('--file <path>', 'the auth.json to write, by default that of your account')
    .addOption(serverOption())
    .addOption(jsonOption())
    .action(async (options: ServerOptions & { file?: string }) => {
      const server = await theServer(options.server)
      const file = options.file ?? join(composerHome(), 'auth.json')
      const auth = await readAuth(file)
      const { accessToken, expiresAt } = await freshLogin(server, { isNew: true })
      const host = new URL(server).host
      const basic = { ...(auth['http-basic'] as object), [host]: { username: 'svc', password: accessToken } }
      await mkdir(dirname(file), { recursive: true })
      await writeSecretFile(file, `${JSON.stringify({ ...auth, 'http-basic': basic }, null, 4)}\n`)
      const end = new Date(expiresAt).toISOString()
      const hours = Math.round((expiresAt - Date.now()) / 3_600_000)
      printResult(
        options,
        { file, host, expires_at: end },
        `${file} has a token for ${host}. It lasts ${hours} hours, until ${end}: run svc composer-auth again after that.`,
      )
    })
}

async function readAuth(file: string): Promise<Record<string, unknown>> {
  if (!existsSync(file)) return {}
  try {
    const auth: unknown = JSON.parse(await readFile(file, 'utf8'))
    if (typeof auth === 'object' && auth !== null && !Array.isArray(auth))
      return auth as Record<string, unknown>
  } catch {
    // The sentence below says what to do.
  }
  throw new Error(`${file} is no JSON object. Nothing was changed: repair or remove it.`)
}

/** Returns the folder that Composer itself uses (its `Factory::getHomeDir`). */
function composerHome(): string {
  const { COMPOSER_HOME, APPDATA, XDG_CONFIG_HOME } = process.env
  if (COMPOSER_HOME) return COMPOSER_HOME
  if (process.platform === 'win32' && APPDATA) return join(APPDATA, 'Composer')
  const usesXdg = existsSync('/etc/xdg') || Object.keys(process.env).some((name) => name.startsWith('XDG_'))
  const folders = [
    ...(usesXdg ? [join(XDG_CONFIG_HOME || join(homedir(), '.config'), 'composer')] : []),
    join(homedir(), '.composer'),
  ]
  return folders.find(existsSync) ?? (folders[0] as string)
}
