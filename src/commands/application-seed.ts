import type { NewApplication } from '../oauth/applications.ts'

/**
 * The seeding migration of an application (SPEC 2.1): what an operator reviews, keeps under version control and
 * ships with every installation. It holds the client secret's SHA-256 only.
 */
export function renderSeed(application: NewApplication): string {
  return `-- The application ${JSON.stringify(application.name)} (SPEC 2.1), written by "svc application new".
-- Of the client secret only its SHA-256 is here: the secret itself was printed once.
with registered as (
  insert into application (client_id, name, description, website, redirect_uri, exact_redirect,
                           scopes, resource_scope, status, is_resource_server, logo)
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
    ${application.isResourceServer},
    decode('
${wrap(application.logo.toString('base64'))}
    ', 'base64')
  )
  returning id
)
insert into application_secret (application_id, secret_hash)
select id, '\\x${application.secretHash.toString('hex')}' from registered;
`
}

/** A literal of SQL; a backslash is an ordinary character in it. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

function wrap(base64: string): string {
  return base64.replace(/.{1,100}/g, '    $&\n').trimEnd()
}
