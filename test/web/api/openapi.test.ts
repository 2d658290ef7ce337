import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { isScope } from '../../../src/domain/scopes.ts'
import { aCaller } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { readTextLimits } from '../../support/schema.ts'

interface Operation {
  summary: string
  security?: Record<string, string[]>[]
  parameters?: { name: string; in: string }[]
  requestBody?: { content: Record<string, { schema: Reference }> }
  responses: Record<string, { headers?: object; content?: Record<string, { schema: Reference }> }>
}
interface Reference {
  $ref?: string
}
interface Schema {
  description?: string
  properties: Record<string, { description?: string }>
  required?: string[]
  additionalProperties?: boolean
}
interface Document {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}

/** A schema, or a part of one. */
interface Node extends Reference {
  type?: string | string[]
  description?: string
  example?: unknown
  maxLength?: number
  enum?: unknown[]
  const?: unknown
  properties?: Record<string, Node>
  items?: Node
  anyOf?: Node[]
  schema?: Node
}

/** Lists the properties of a schema and of the objects in it. */
function listProperties(path: string, node: Node): { path: string; node: Node }[] {
  const own = Object.entries(node.properties ?? {}).flatMap(([name, one]) => [
    { path: `${path}.${name}`, node: one },
    ...listProperties(`${path}.${name}`, one),
  ])
  return [...own, ...[node.items ?? [], node.anyOf ?? []].flat().flatMap((one) => listProperties(path, one))]
}

function isDescribed({ description, schema }: Node): boolean {
  return Boolean(description ?? schema?.description)
}

/** Returns whether a value can be seen: an example, a fixed set of values, or the examples of its parts. */
function hasExample(node: Node = {}): boolean {
  if (node.$ref !== undefined || node.enum !== undefined || node.type === 'boolean') return true
  if ('example' in node || 'const' in node || node.properties !== undefined) return true
  return [node.items ?? [], node.anyOf ?? []].flat().some((one) => one.type !== 'null' && hasExample(one))
}

/** Returns the maximum length of a text, which may be nullable. */
function maxLengthOf({ maxLength, anyOf = [] }: Node = {}): number | undefined {
  return maxLength ?? anyOf.find((one) => one.type === 'string')?.maxLength
}

describe('GET /api/openapi.json', () => {
  const t = useApp()
  const read = async () => (await t.app.inject('/api/openapi.json')).json() as Document

  it('is public, in OpenAPI 3.1', async () => {
    const response = await t.app.inject('/api/openapi.json')
    expect(response.statusCode).toBe(200)
    expect(response.headers['content-type']).toMatch(/^application\/json/)
    expect(response.json()).toMatchObject({ openapi: '3.1.0', servers: [{ url: 'http://svc.test' }] })
  })

  it('describes every endpoint, and nothing else', async () => {
    const ofApi = Object.entries((await read()).paths).filter(([path]) => path.startsWith('/api/'))
    const described = ofApi.map(([path, operations]) => {
      const methods = Object.keys(operations).map((method) => method.toUpperCase())
      return `${path} ${methods.toSorted().join(' ')}`
    })
    const routed: string[] = []
    const paths = listPaths(t.app.printRoutes({ commonPrefix: false }))
    // Directories read /Schemas instead.
    for (const path of paths.filter((one) => !one.startsWith('/api/scim/'))) {
      const { headers } = await t.app.inject({ method: 'OPTIONS', url: path.replaceAll(/[{}]/g, '') })
      const methods = String(headers['allow']).split(', ')
      const own = methods.filter((method) => method !== 'HEAD').toSorted()
      routed.push(`${path} ${own.join(' ')}`)
    }
    expect(routed.length).toBeGreaterThan(15)
    expect(described.toSorted()).toEqual(routed.toSorted())
  })

  it('describes the endpoints that programs depend on, with their scopes (CONTRACT 6.2)', async () => {
    const { paths } = await read()
    const repository = '/api/repositories/{group}/{name}'
    const package_ = `${repository}/packages/{vendor}/{package}`
    for (const [method, path, scope] of [
      ['get', '/api/user', 'account-profile:r'],
      ['patch', '/api/user', 'account-profile:rw'],
      ['get', '/api/user/emails', 'account-email:r'],
      ['get', '/api/groups', 'group-resource:r'],
      ['get', '/api/groups/{group}/repositories', 'group-resource:r'],
      ['get', '/api/repositories', 'repo-basic-info:r'],
      ['get', repository, 'repo-basic-info:r'],
      ['get', `${repository}/packages`, 'registry-package:r'],
      ['get', package_, 'registry-package:r'],
      ['patch', package_, 'registry-package:rw'],
      ['post', `${package_}/advisories`, 'registry-package:rw'],
      ['post', `${package_}/{version}/quarantine`, 'registry-package:rw'],
      ['delete', package_, 'registry-package-delete:rw'],
      ['delete', `${package_}/{version}`, 'registry-package-delete:rw'],
      ['post', `${package_}/restore`, 'registry-package-delete:rw'],
      ['get', `${repository}/members/{username}`, 'registry-manage:r'],
      ['put', `${repository}/members/{username}`, 'registry-manage:rw'],
      ['delete', `${repository}/members/{username}`, 'registry-manage:rw'],
      ['patch', repository, 'registry-manage:rw'],
      ['delete', repository, 'registry-delete:rw'],
    ] as const) {
      const operation = paths[path]?.[method]
      expect([method, path, operation?.security]).toEqual([
        method,
        path,
        [{ application: [scope] }, { personalToken: [scope] }],
      ])
    }
    // These make something less safe.
    for (const path of [`${package_}/advisories/{advisory}`, `${package_}/{version}/quarantine`]) {
      const operation = paths[path]?.['delete']
      expect([path, operation?.security]).toEqual([path, [{ personalToken: ['registry-manage:rw'] }]])
    }
    // These are for site administrators.
    for (const path of ['/api/accounts', '/api/invitations']) {
      const security = [{ personalToken: ['group-manage:rw'] }]
      expect([path, paths[path]?.['post']?.security]).toEqual([path, security])
    }
  })

  it('has the endpoints and scopes of the tables in docs/api.md', async () => {
    const rows = listRows(await readFile('docs/api.md', 'utf8'))
    const operations = Object.entries((await read()).paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { security = [] }]) => ({
        name: `${method.toUpperCase()} ${path}`,
        scopes: new Set(security.flatMap((one) => Object.values(one).flat())),
      })),
    )
    const inApi = operations.filter(({ name }) => name.includes(' /api/'))
    const missing = inApi.filter(
      ({ name, scopes }) =>
        !rows.some(
          (row) => row.endpoint.test(name) && [...scopes].every((scope) => row.scopes.includes(scope)),
        ),
    )
    expect(missing.map(({ name, scopes }) => `${name}: ${[...scopes].join(' ')}`)).toEqual([])
    const unknown = rows.filter(({ endpoint }) => !inApi.some(({ name }) => endpoint.test(name)))
    expect(unknown.map(({ text }) => text)).toEqual([])
  })

  it('names the parameters of each path, and only scopes that exist', async () => {
    const { paths } = await read()
    for (const [path, operations] of Object.entries(paths)) {
      for (const { summary, parameters = [], security = [] } of Object.values(operations)) {
        const inPath = parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name)
        expect(inPath).toEqual(Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name))
        expect(summary).not.toBe('')
        expect(security.flatMap((one) => Object.values(one).flat()).every(isScope)).toBe(true)
      }
    }
  })

  it('describes what the endpoints take and return', async () => {
    const { paths, components } = await read()
    const resolve = ({ $ref }: Reference = {}) => components.schemas[$ref?.split('/').at(-1) ?? '']
    const path = '/api/repositories/{group}/{name}/packages/{vendor}/{package}'
    const body = paths[`${path}/advisories`]?.['post']?.requestBody?.content['application/json']?.schema
    expect(resolve(body)).toMatchObject({
      required: ['title', 'affected_versions'],
      additionalProperties: false,
    })
    const { call, push } = await aCaller(t)
    await push('1.0.0')
    const returned = (await call('GET', '/packages/acme/lib')).json() as object
    const described = resolve(paths[path]?.['get']?.responses['200']?.content?.['application/json']?.schema)
    expect(Object.keys(described?.properties ?? {})).toEqual(Object.keys(returned))
    expect(described).not.toHaveProperty('additionalProperties')
    expect(paths['/api/repositories']?.['get']?.responses['200']?.headers).toHaveProperty('Link')
  })

  it('describes every property and parameter, with an example', async () => {
    const { paths, components } = await read()
    const found = Object.entries(components.schemas).flatMap(([name, schema]) => listProperties(name, schema))
    expect(found.length).toBeGreaterThan(250)
    const incomplete = found.filter(({ node }) => !isDescribed(node) || !hasExample(node))
    expect(incomplete.map(({ path }) => path)).toEqual([])
    const parameters = Object.values(paths).flatMap((operations) =>
      Object.values(operations).flatMap(({ parameters: all = [] }) => all as (Node & { name: string })[]),
    )
    const unclear = parameters.filter(
      (one) => !isDescribed(one) || !(hasExample(one) || hasExample(one.schema)),
    )
    expect(new Set(unclear.map(({ name }) => name))).toEqual(new Set())
  })

  it('describes the limits that the database enforces', async () => {
    const { schemas } = (await read()).components
    const limits = await readTextLimits(t.db)
    const described = (
      [
        ['AccountDraft', 'username', 'account.username'],
        ['AccountDraft', 'name', 'account.display_name'],
        ['AccountDraft', 'email', 'account.email'],
        ['GroupDraft', 'name', 'repository_group.name'],
        ['RepositoryDraft', 'name', 'repository.name'],
        ['RepositoryDraft', 'description', 'repository.description'],
        ['DeployTokenDraft', 'name', 'deploy_token.name'],
        ['ApplicationUpdate', 'name', 'application.name'],
        ['ApplicationUpdate', 'description', 'application.description'],
        ['ApplicationUpdate', 'website', 'application.website'],
        ['ApplicationUpdate', 'redirect_uri', 'application.redirect_uri'],
        ['UpstreamDraft', 'url', 'upstream.url'],
        ['UpstreamDraft', 'name', 'upstream.name'],
      ] as const
    ).map(([schema, property, column]) => ({
      column,
      most: maxLengthOf(schemas[`${schema}Input`]?.properties[property]),
    }))
    expect(described).toEqual(described.map(({ column }) => ({ column, most: limits.get(column) })))
    expect(described.every(({ most }) => most !== undefined)).toBe(true)
  })

  it('names the schema of every body, and describes none for responses without one', async () => {
    const { paths } = await read()
    for (const [path, operations] of Object.entries(paths)) {
      for (const { requestBody, responses } of Object.values(operations)) {
        expect(responses['204']?.content).toBeUndefined()
        for (const body of [requestBody, ...Object.values(responses)]) {
          const schema = body?.content?.['application/json']?.schema as Node | undefined
          if (schema) expect([path, schema.$ref ?? schema.items?.$ref]).toEqual([path, expect.any(String)])
        }
      }
    }
  })

  it('describes uploads and pulls by URLs that exist', async () => {
    const { paths } = await read()
    const ofRegistry = Object.keys(paths).filter((path) => !path.startsWith('/api/'))
    expect(ofRegistry).toHaveLength(5)
    for (const path of ofRegistry) {
      const { statusCode } = await t.app.inject(path.replaceAll(/[{}]/g, ''))
      expect([path, statusCode]).toEqual([path, path.includes('/upload/') ? 405 : 401])
    }
  })

  it('passes redocly lint without a warning', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-test-openapi-'))
    await writeFile(join(folder, 'openapi.json'), JSON.stringify(await read()))
    const { stdout } = await promisify(execFile)('npx', [
      ...['redocly', 'lint', '--config', '.redocly.yaml', '--format', 'json'],
      join(folder, 'openapi.json'),
    ])
    await rm(folder, { recursive: true })
    expect(JSON.parse(stdout.slice(stdout.indexOf('{')))).toMatchObject({
      totals: { errors: 0, warnings: 0 },
    })
  })
})

/** An endpoint in a table of docs/api.md, as it is written there. */
interface Row {
  text: string
  /** Matches names such as `GET /api/user`. */
  endpoint: RegExp
  scopes: string[]
}

/**
 * Reads the tables of endpoints. In a path, `…` stands for a longer URL, and a part in brackets may be missing. A path
 * has the methods before it, or those of the path before. A second scope may be shortened to `:rw`. The endpoints of
 * the table without scopes require `group-manage`.
 */
function listRows(document: string): Row[] {
  const cells = Array.from(document.matchAll(/^\| (`[A-Z]+.*?) \| (.*) \|$/gm), ([, ...found]) => found)
  return cells.flatMap(([endpoints = '', scopes = '']) => {
    const named = scopesIn(scopes)
    let methods: string[] = []
    let isComplete = true
    return codesIn(endpoints).flatMap((code) => {
      const [, method, path] = /^([A-Z]*) ?(.*)$/.exec(code) ?? []
      if (method) methods = isComplete ? [method] : [...methods, method]
      isComplete = Boolean(path)
      if (!path) return []
      const pattern = path
        .replace(/\[(.*)\]/, '(?:$1)?')
        .replaceAll(/\{\w+\}/g, '\\{\\w+\\}')
        .replace('…', '/api/.*\\}')
      return {
        text: code,
        endpoint: new RegExp(`^(?:${methods.join('|')}) ${pattern}$`),
        scopes: named.length > 0 ? named : ['group-manage:r', 'group-manage:rw'],
      }
    })
  })
}

function scopesIn(cell: string): string[] {
  const scopes: string[] = []
  for (const code of codesIn(cell)) {
    const scope = code.startsWith(':') ? scopes.at(-1)?.replace(/:.*/, code) : code
    if (scope !== undefined && isScope(scope)) scopes.push(scope)
  }
  return scopes
}

function codesIn(cell: string): string[] {
  return Array.from(cell.matchAll(/`([^`]+)`/g), ([, code = '']) => code)
}

/** Returns the paths of the API, such as `/api/user`, from the tree of routes that Fastify prints. */
function listPaths(tree: string): string[] {
  const segments: string[] = []
  const paths: string[] = []
  for (const line of tree.split('\n')) {
    const [, indent = '', segment = ''] = /^([│ ]*)[├└]── (\S*)/.exec(line) ?? []
    segments.splice(indent.length / 4, Number.POSITIVE_INFINITY, segment)
    paths.push(segments.join('').replaceAll(/:(\w+)/g, '{$1}'))
  }
  return paths.filter((path) => /^\/api\/[^*]/.test(path) && path !== '/api/openapi.json')
}
