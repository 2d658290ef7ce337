import type { LightMyRequestResponse } from 'fastify'
import { operator } from '../../src/domain/principal.ts'
import type { Repository } from '../../src/groups/repositories.ts'
import { addPublisher, listPublishers, type NewPublisher } from '../../src/publishers/trusted-publishers.ts'
import { aRepository } from './actors.ts'
import type { TestApp } from './app.ts'
import type { CiIssuer } from './ci-issuer.ts'
import { aPackageZip, basic } from './registry-actors.ts'
import { postForm } from './token-client.ts'

export const exchangeGrant = 'urn:ietf:params:oauth:grant-type:token-exchange'

/** The claims of a job of GitHub Actions for `acme/lib`. */
export const jobClaims = {
  repository: 'acme/lib',
  repository_id: '17',
  repository_owner_id: '4',
  workflow_ref: 'acme/lib/.github/workflows/release.yml@refs/heads/main',
  job_workflow_ref: 'acme/lib/.github/workflows/release.yml@refs/heads/main',
  event_name: 'push',
  ref: 'refs/heads/main',
  sha: 'c0ffee',
  run_id: '99',
}

/** A repository with one trusted publisher that an operator has added: by default, a workflow of `acme/lib` may publish. */
export async function aTrustedRepository(
  t: TestApp,
  ci: CiIssuer,
  wanted: Partial<NewPublisher> = {},
  repository?: Repository,
) {
  const place = repository ?? (await aRepository(t.db))
  const id = await aTrustedPublisher(t, ci, place, wanted)
  const registry = `http://svc.test/${place.path}/-/packages/`
  const exchange = (subject_token: string, more: Record<string, string> = {}) =>
    exchangeAt(t, { subject_token, resource: registry, ...more })
  return { repository: place, id, registry, exchange, lastExchange: () => lastExchangeOf(t, place, id) }
}

/** Adds a trusted publisher as an operator. Returns its id. */
export function aTrustedPublisher(
  t: TestApp,
  ci: CiIssuer,
  repository: { id: string },
  wanted: Partial<NewPublisher> = {},
): Promise<string> {
  return addPublisher(
    t,
    { repositoryId: repository.id, by: operator },
    {
      provider: 'github',
      issuer: ci.issuer,
      project: 'acme/lib',
      workflow: 'release.yml',
      right: 'publish',
      ...wanted,
    },
  )
}

/** Sends a token exchange. */
export function exchangeAt(
  t: Pick<TestApp, 'app'>,
  form: Record<string, string>,
  headers: Record<string, string> = {},
) {
  const all = {
    grant_type: exchangeGrant,
    subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
    ...form,
  }
  return postForm(t, '/oauth2/token', new URLSearchParams(all).toString(), headers)
}

/** Uploads a package with a token. */
export function pushWith(
  t: Pick<TestApp, 'app'>,
  repository: { path: string },
  token: string,
  { name = 'acme/lib', version = '1.0.0', to = 'upload' } = {},
): Promise<LightMyRequestResponse> {
  return t.app.inject({
    method: 'PUT',
    url: `/${repository.path}/-/packages/${to}/${name}/${version}`,
    headers: { authorization: basic(token) },
    payload: aPackageZip(name),
  })
}

/** Uploads a package as a form, with its attestations: texts, or what becomes JSON. */
export async function uploadForm(
  t: Pick<TestApp, 'app'>,
  repository: { path: string },
  token: string,
  {
    zip = aPackageZip('acme/lib'),
    attestations = [] as (string | object)[],
    to = 'upload',
    isFile = false,
  } = {},
): Promise<LightMyRequestResponse> {
  const form = new FormData()
  form.set('package', new Blob([new Uint8Array(zip)]), 'package.zip')
  for (const one of attestations) {
    const text = typeof one === 'string' ? one : JSON.stringify(one)
    if (isFile) form.append('attestations', new Blob([text], { type: 'application/json' }), 'bundle.json')
    else form.append('attestations', text)
  }
  const encoded = new Response(form)
  return t.app.inject({
    method: 'POST',
    url: `/${repository.path}/-/packages/${to}/acme/lib/1.0.0`,
    headers: {
      authorization: basic(token),
      'content-type': encoded.headers.get('content-type') ?? '',
    },
    payload: Buffer.from(await encoded.arrayBuffer()),
  })
}

/** Reads a URL below that of a registry with a token. */
export function pullWith(
  t: Pick<TestApp, 'app'>,
  repository: { path: string },
  token: string,
  below = 'packages.json',
): Promise<LightMyRequestResponse> {
  return t.app.inject({
    url: `/${repository.path}/-/packages/${below}`,
    headers: { authorization: basic(token) },
  })
}

async function lastExchangeOf(t: TestApp, repository: { id: string }, id: string) {
  const publishers = await listPublishers(t.db, repository.id, { after: null, limit: 100 })
  return publishers.find((one) => one.id === id)?.lastExchange ?? null
}
