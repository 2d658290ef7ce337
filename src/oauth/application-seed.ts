import type { Application, ApplicationStatus, NewApplication } from './applications.ts'

/**
 * Returns the migration that adds an application (SPEC 2.1). An operator reviews it, keeps it under version control and
 * ships it with every installation. It contains no secret, only the SHA-256 of one.
 */
export function renderSeed(application: NewApplication): string {
  const { name, secretHash } = application
  const title = `-- The application ${JSON.stringify(name)} (SPEC 2.1), written by "svc application new".`
  if (secretHash === null) {
    return `${title}
-- It is a public client, so it has no client secret.
${insertion(application)};
`
  }
  return `${title}
-- It contains only the SHA-256 of the client secret. The secret itself was printed once.
with registered as (
${insertion(application)}
  returning id
)
insert into application_secret (application_id, secret_hash)
select id, '\\x${secretHash.toString('hex')}' from registered;
`
}

function insertion(application: NewApplication): string {
  return `  insert into application (client_id, name, description, website, redirect_uri, exact_redirect,
                           scopes, resource_scope, status, is_public, is_device, is_resource_server, developer_id,
                           id_token_alg, post_logout_redirect_uri, backchannel_logout_uri, redirect_uris, logo)
  values (
    ${quote(application.clientId)},
    ${quote(application.name)},
    ${application.description === null ? 'null' : quote(application.description)},
    ${quote(application.website)},
    ${quote(application.redirectUri)},
    ${application.exactRedirect},
    array[${application.scopes.map(quote).join(', ')}],
    ${quote(application.resourceScope)},
    ${quote(application.status)},
    ${application.isPublic},
    ${application.isDevice},
    ${application.isResourceServer},
    ${application.developer == null ? 'null' : accountNamed(application.developer)},
    ${quote(application.idTokenAlg ?? 'RS256')},
    ${literal(application.postLogoutRedirectUri ?? null)},
    ${literal(application.backchannelLogoutUri ?? null)},
    ${literal(application.redirectUris ?? null)},
    decode('
${wrap(application.logo.toString('base64'))}
    ', 'base64')
  )`
}

/** Returns the migration that sets an application's status, for databases that are rebuilt from the migrations. */
export function renderStatusSeed(
  { clientId, name, isUnreviewed }: Application,
  status: ApplicationStatus,
  reason: string | null = null,
): string {
  const review = isUnreviewed && status === 'approved' ? ', is_unreviewed = false' : ''
  return `-- The application ${JSON.stringify(name)} is ${status}, written by "svc application".
update application set status = ${quote(status)}, status_reason = ${literal(reason)}${review} where client_id = ${quote(clientId)};
`
}

/** The changes of an application. Missing members stay as they are. */
export type ApplicationChanges = Partial<
  Pick<
    NewApplication,
    | 'name'
    | 'description'
    | 'website'
    | 'redirectUri'
    | 'exactRedirect'
    | 'redirectUris'
    | 'isUnreviewed'
    | 'scopes'
    | 'resourceScope'
    | 'isPublic'
    | 'isDevice'
    | 'idTokenAlg'
    | 'postLogoutRedirectUri'
    | 'backchannelLogoutUri'
    | 'isResourceServer'
    | 'developer'
    | 'logo'
  >
>

/** Returns the migration that changes an application. At least one change is required. */
export function renderChangeSeed({ clientId, name }: Application, changes: ApplicationChanges): string {
  const lines = Object.entries(changes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => {
      const isAccount = key === 'developer' && typeof value === 'string'
      return `  ${columnOf[key as keyof ApplicationChanges]} = ${isAccount ? accountNamed(value) : literal(value)}`
    })
  return `-- The application ${JSON.stringify(name)} is changed, written by "svc application set".
update application set
${lines.join(',\n')}
where client_id = ${quote(clientId)};
`
}

const columnOf = {
  name: 'name',
  description: 'description',
  website: 'website',
  redirectUri: 'redirect_uri',
  exactRedirect: 'exact_redirect',
  redirectUris: 'redirect_uris',
  isUnreviewed: 'is_unreviewed',
  scopes: 'scopes',
  resourceScope: 'resource_scope',
  isPublic: 'is_public',
  isDevice: 'is_device',
  idTokenAlg: 'id_token_alg',
  postLogoutRedirectUri: 'post_logout_redirect_uri',
  backchannelLogoutUri: 'backchannel_logout_uri',
  isResourceServer: 'is_resource_server',
  developer: 'developer_id',
  logo: 'logo',
} as const satisfies Record<keyof ApplicationChanges, string>

/** A database that is rebuilt from the migrations may not have the account. Then the application has no developer. */
function accountNamed(username: string): string {
  return `(select id from account where username = ${quote(username)})`
}

function literal(value: string | boolean | string[] | Buffer | null): string {
  if (Buffer.isBuffer(value)) return `decode('\n${wrap(value.toString('base64'))}\n    ', 'base64')`
  if (Array.isArray(value)) return `array[${value.map(quote).join(', ')}]`
  return typeof value === 'string' ? quote(value) : String(value)
}

/** Returns the migration that deletes an application, with its authorizations and tokens. */
export function renderDeletionSeed({ clientId, name }: Application): string {
  return `-- The application ${JSON.stringify(name)} is deleted, written by "svc application delete".
delete from application where client_id = ${quote(clientId)};
`
}

/**
 * Returns the application's name in a form for file names: letters, digits and underscores. The default is the client
 * id.
 */
export function slugOf({ name, clientId }: Pick<Application, 'name' | 'clientId'>): string {
  const plain = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
  return plain.replaceAll(/^_|_$/g, '') || clientId
}

/** Returns an SQL string literal. A backslash is an ordinary character in it. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

function wrap(base64: string): string {
  return base64.replace(/.{1,100}/g, '    $&\n').trimEnd()
}
