import { createReadStream } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { Command } from 'commander'
import { readConfig } from '../config.ts'
import { migrate, readMigrations } from '../database/migrate.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import { hashSecret, makeClientId, makeSecret } from '../domain/secrets.ts'
import type { NewApplication } from '../oauth/applications.ts'
import { listMistakes, maxLogoBytes } from './application-rules.ts'
import { renderSeed } from './application-seed.ts'
import { jsonOption, resourceScopeOption, scopeOption, scopesHelp } from './options.ts'
import { answer, withBareDatabase } from './run.ts'

interface NewOptions {
  name: string
  website: string
  redirectUri: string
  logo: string
  scope: string[]
  resourceScope: ResourceScope
  description?: string
  exactRedirect?: boolean
  resourceServer?: boolean
  pending?: boolean
  apply?: boolean
  json?: boolean
}

const example = `
Example:
  svc application new --name "Build Bot" --website https://bot.example.com \\
    --redirect-uri https://bot.example.com/callback --logo logo.png \\
    --scope account-profile:r registry-package:rw --resource-scope all --apply
`

/** `svc application new`: registers an application by writing its seeding migration. */
export function newCommand(): Command {
  return new Command('new')
    .description('Register an application: write its seeding migration, print client id and secret once.')
    .requiredOption('--name <name>', 'at most 50 characters')
    .requiredOption('--website <url>', 'official website, at most 128 characters')
    .requiredOption('--redirect-uri <url>', 'where people come back to after they authorized it')
    .requiredOption('--logo <file>', 'PNG, JPEG, GIF or WebP, at most 1 MB')
    .addOption(scopeOption())
    .addOption(resourceScopeOption('which resources it may reach').makeOptionMandatory())
    .option('--description <text>', 'at most 350 characters')
    .option('--exact-redirect', 'only the Redirect URL itself, instead of any address on its host')
    .option('--resource-server', 'may introspect every token, not only its own')
    .option('--pending', 'not yet approved: nobody can authorize it until svc application approve')
    .option('--apply', 'migrate at once')
    .addOption(jsonOption())
    .addHelpText('after', example)
    .addHelpText('after', scopesHelp)
    .action(registerApplication)
}

async function registerApplication(options: NewOptions): Promise<void> {
  const secret = makeSecret('client')
  const application: NewApplication = {
    clientId: makeClientId(),
    name: options.name,
    description: options.description || null,
    website: options.website,
    redirectUri: options.redirectUri,
    exactRedirect: options.exactRedirect ?? false,
    logo: await readLogo(options.logo),
    scopes: options.scope,
    resourceScope: options.resourceScope,
    status: options.pending ? 'pending' : 'approved',
    isResourceServer: options.resourceServer ?? false,
    secretHash: hashSecret(secret),
  }
  const mistakes = listMistakes(application)
  if (mistakes.length > 0) throw new Error(`The application cannot be registered: ${mistakes.join('; ')}.`)
  const path = await writeMigration(application)
  if (options.apply) await applyMigration(path)
  answer(
    options,
    { client_id: application.clientId, client_secret: secret, migration: path },
    `The migration ${path} ${options.apply ? 'is applied' : 'waits for svc migrate or the next start'}.
client_id      ${application.clientId}
client_secret  ${secret}  (shown only now)`,
  )
}

/** No more of it than tells that it is too large. */
async function readLogo(path: string): Promise<Buffer> {
  return buffer(createReadStream(path, { end: maxLogoBytes })).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`The logo ${path} cannot be read (${error.code}).`)
  })
}

/** Writes the file under the next free number, and answers its path. */
async function writeMigration(application: NewApplication): Promise<string> {
  const { migrationsDir } = readConfig(process.env)
  const numbers = (await readMigrations(migrationsDir)).map(({ name }) => Number(name.slice(0, 4)))
  const number = String(Math.max(0, ...numbers) + 1).padStart(4, '0')
  const path = join(migrationsDir, `${number}_application_${slugOf(application)}.sql`)
  await writeFile(path, renderSeed(application), { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`The migration ${path} cannot be written (${error.code}).`)
  })
  return path
}

/** Migrates; a file that the database refuses is taken away again, for it would stop every later start. */
async function applyMigration(path: string): Promise<void> {
  try {
    await withBareDatabase((db, { migrationsDir }) => migrate(db, migrationsDir))
  } catch (error) {
    await rm(path)
    throw error
  }
}

/** The name in letters, digits and underscores; one that has none of them is told by its client identifier. */
function slugOf({ name, clientId }: NewApplication): string {
  const plain = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
  return plain.replaceAll(/^_|_$/g, '') || clientId
}
