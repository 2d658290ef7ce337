import type { LightMyRequestResponse } from 'fastify'
import type { Role, Visibility } from '../../src/domain/permissions.ts'
import type { Repository } from '../../src/groups/repositories.ts'
import { aMember, anAccount, aPersonalToken, aRepository } from './actors.ts'
import type { TestApp } from './app.ts'
import { aZip } from './zip.ts'

/** An account with a token for the registry of a repository. */
export interface Publisher {
  repository: Repository
  account: { id: string; username: string }
  token: string
  /** The path of the registry. It ends with a slash. */
  path: string
  /** The Authorization header that curl and Composer send for the token. */
  authorization: string
  /** Sends a request below the URL of the registry. The method is GET by default. */
  ask: (path: string, options?: AskOptions) => Promise<LightMyRequestResponse>
  /** Uploads a version. The default body is a valid archive. */
  push: (version: string, options?: PushOptions) => Promise<LightMyRequestResponse>
  /** Stages a version. The default body is a valid archive. */
  stage: (version: string, options?: PushOptions) => Promise<LightMyRequestResponse>
}

export interface AskOptions {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE' | 'PATCH'
  headers?: Record<string, string | undefined>
  payload?: Buffer | string
}

export interface PushOptions extends AskOptions {
  name?: string
  /** More keys of composer.json. */
  manifest?: Record<string, unknown>
}

/** Returns Basic credentials as in SPEC 4.4. */
export function basic(token: string, username = 'svc'): string {
  return `Basic ${Buffer.from(`${username}:${token}`).toString('base64')}`
}

/** A package's archive with its composer.json at the root, as `composer archive` makes it. */
export function aPackageZip(name: string, manifest: Record<string, unknown> = {}): Buffer {
  const [, namespace = ''] = /\/(.*)$/.exec(name) ?? []
  return aZip({
    'composer.json': JSON.stringify({ name, autoload: { 'psr-4': { 'Acme\\': 'src/' } }, ...manifest }),
    'src/Lib.php': `<?php namespace Acme; class Lib { const NAME = '${namespace}'; }`,
  })
}

/** A developer of a new private repository, with a token that may push. */
export async function aPublisher(
  t: Pick<TestApp, 'app' | 'db'>,
  {
    role = 'developer' as Role,
    visibility = 'private' as Visibility,
    scopes = ['registry-package:rw'],
    repository: given = undefined as Repository | undefined,
  } = {},
): Promise<Publisher> {
  const repository = given ?? (await aRepository(t.db, { visibility }))
  const account = await anAccount(t.db)
  await aMember(t.db, account, repository, role)
  const token = await aPersonalToken(t.db, account, { scopes })
  const path = `/${repository.path}/-/packages/`
  const authorization = basic(token)

  function ask(below: string, { method = 'GET', headers, payload }: AskOptions = {}) {
    const all = Object.entries({ authorization, ...headers }).filter(([, value]) => value !== undefined)
    return t.app.inject({
      method,
      url: path + below,
      headers: Object.fromEntries(all) as Record<string, string>,
      ...(payload !== undefined && { payload }),
    })
  }

  function send(start: 'upload' | 'stage', version: string, options: PushOptions = {}) {
    const { name = 'acme/lib', manifest, ...others } = options
    const payload = others.payload ?? aPackageZip(name, manifest)
    return ask(`${start}/${name}/${version}`, { method: 'PUT', ...others, payload })
  }

  const push = send.bind(null, 'upload')
  const stage = send.bind(null, 'stage')
  return { repository, account, token, path, authorization, ask, push, stage }
}

/** Returns the entries of a p2 document, expanded as Composer does it. */
export function expand(body: string, name = 'acme/lib'): Record<string, unknown>[] {
  const document = JSON.parse(body) as {
    minified: string
    packages: Record<string, Record<string, unknown>[]>
  }
  let entry: Record<string, unknown> = {}
  return (document.packages[name] ?? []).map((difference) => {
    const merged = Object.entries({ ...entry, ...difference })
    entry = Object.fromEntries(merged.filter(([, value]) => value !== '__unset'))
    return entry
  })
}
