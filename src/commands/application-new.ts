import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { Command } from 'commander'
import { readConfig } from '../config.ts'
import { migrate } from '../database/migrate.ts'
import { findMigrationsDir, writeMigration } from '../database/operator-migrations.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import type { TokenAlgorithm } from '../domain/token-algorithm.ts'
import { prepareRegistration } from '../oauth/application-changes.ts'
import { maxLogoBytes } from '../oauth/application-rules.ts'
import {
  applicationScopeOption,
  applicationScopesHelp,
  type JsonOptions,
  jsonOption,
  resourceScopeOption,
  tokenAlgorithmOption,
} from './options.ts'
import { printResult, theAccount, withBareDatabase, withDatabase } from './run.ts'

interface NewOptions extends JsonOptions {
  name: string
  website: string
  redirectUri: string
  logo: string
  scope: string[]
  resourceScope: ResourceScope
  description?: string
  developer?: string
  exactRedirect?: boolean
  public?: boolean
  device?: boolean
  idTokenAlg?: TokenAlgorithm
  postLogoutRedirectUri?: string
  backchannelLogoutUri?: string
  resourceServer?: boolean
  pending?: boolean
  apply?: boolean
}

const example = `
Example:
  svc application new --name "Build Bot" --website https://bot.example.com \\
    --redirect-uri https://bot.example.com/callback --logo logo.png \\
    --scope account-profile:r registry-package:rw --resource-scope all --apply
`

/** `svc application new`: registers an application by writing a migration. */
export function newCommand(): Command {
  return new Command('new')
    .description(
      'Register an application: write a migration that adds it, and print its client id and secret once.',
    )
    .requiredOption('--name <name>', 'at most 50 characters')
    .requiredOption('--website <url>', 'official website, at most 128 characters')
    .requiredOption('--redirect-uri <url>', 'URL to which the browser returns after the authorization')
    .requiredOption('--logo <file>', 'PNG, JPEG, GIF or WebP, at most 1 MB')
    .addOption(applicationScopeOption())
    .addOption(resourceScopeOption('which resources it may access').makeOptionMandatory())
    .option('--description <text>', 'at most 350 characters')
    .option('--developer <username>', 'who asked for it, and sees its state')
    .option('--exact-redirect', 'allow only the Redirect URL, instead of any URL on its host')
    .option('--public', 'a program on the machines of people, which can keep no secret: it gets none')
    .option('--device', 'let it ask with a code that the person confirms in a browser (RFC 8628)')
    .addOption(tokenAlgorithmOption())
    .option(
      '--post-logout-redirect-uri <url>',
      'URL to which the browser returns after a sign-out that it has begun',
    )
    .option('--backchannel-logout-uri <url>', 'URL that gets a logout token when a session ends')
    .option('--resource-server', 'let it introspect access, personal and deploy tokens of everybody')
    .option('--pending', 'not approved yet: nobody can authorize it before svc application approve')
    .option('--apply', 'migrate at once')
    .addOption(jsonOption())
    .addHelpText('after', example)
    .addHelpText('after', applicationScopesHelp)
    .action(registerApplication)
}

async function registerApplication(options: NewOptions): Promise<void> {
  const config = readConfig(process.env)
  const { developer } = options
  if (developer !== undefined) await withDatabase((db) => theAccount(db, developer))
  const { clientId, clientSecret, what, sql } = prepareRegistration(config, {
    name: options.name,
    description: options.description || null,
    website: options.website,
    redirectUri: options.redirectUri,
    exactRedirect: options.exactRedirect ?? false,
    logo: await readLogo(options.logo),
    scopes: options.scope,
    resourceScope: options.resourceScope,
    developer: developer ?? null,
    isPublic: options.public ?? false,
    isDevice: options.device ?? false,
    idTokenAlg: options.idTokenAlg ?? 'RS256',
    postLogoutRedirectUri: options.postLogoutRedirectUri || null,
    backchannelLogoutUri: options.backchannelLogoutUri || null,
    status: options.pending ? 'pending' : 'approved',
    isResourceServer: options.resourceServer ?? false,
  })
  const path = await writeMigration(config, what, sql)
  if (options.apply) await applyMigration(path)
  printResult(
    options,
    { client_id: clientId, client_secret: clientSecret, migration: path },
    `The migration ${path} is ${options.apply ? 'applied' : 'written. svc migrate or the next start applies it'}.
client_id      ${clientId}
client_secret  ${clientSecret === null ? '-  (a public client has none)' : `${clientSecret}  (shown only now)`}`,
  )
}

/** Reads a logo file. It reads at most one byte more than allowed, which is enough to reject a larger file. */
export async function readLogo(path: string): Promise<Buffer> {
  return buffer(createReadStream(path, { end: maxLogoBytes })).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`The logo ${path} cannot be read (${error.code}).`)
  })
}

/** Applies the migration. Removes its file if the database rejects it: every later start would fail because of it. */
async function applyMigration(path: string): Promise<void> {
  try {
    await withBareDatabase(async (db, config) => migrate(db, await findMigrationsDir(config)))
  } catch (error) {
    await rm(path)
    throw error
  }
}
