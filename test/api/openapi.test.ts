import { describe, expect, it } from 'vitest'
import { isScope } from '../../src/domain/scopes.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'

interface Operation {
  summary: string
  security?: Record<string, string[]>[]
  parameters?: { name: string; in: string }[]
  requestBody?: { content: Record<string, { schema: { properties: object; required?: string[] } }> }
  responses: Record<string, { content?: Record<string, { schema: { properties: object } }> }>
}
interface Document {
  openapi: string
  paths: Record<string, Record<string, Operation>>
}

describe('GET /api/openapi.json', () => {
  const t = useApp()
  const read = async () => (await t.app.inject('/api/openapi.json')).json() as Document

  it('is there for everyone, in OpenAPI 3.1', async () => {
    const answer = await t.app.inject('/api/openapi.json')
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['content-type']).toMatch(/^application\/json/)
    expect(answer.json()).toMatchObject({ openapi: '3.1.0', servers: [{ url: 'http://svc.test' }] })
  })

  it('describes every interface that there is, and no other', async () => {
    const { paths } = await read()
    const described = Object.entries(paths).map(([path, operations]) => {
      const methods = Object.keys(operations).map((method) => method.toUpperCase())
      return `${path} ${methods.toSorted().join(' ')}`
    })
    const answering: string[] = []
    for (const path of listPaths(t.app.printRoutes({ commonPrefix: false }))) {
      const { headers } = await t.app.inject({ method: 'OPTIONS', url: path.replaceAll(/[{}]/g, '') })
      const methods = String(headers['allow']).split(', ')
      const own = methods.filter((method) => method !== 'HEAD').toSorted()
      answering.push(`${path} ${own.join(' ')}`)
    }
    expect(answering.length).toBeGreaterThan(15)
    expect(described.toSorted()).toEqual(answering.toSorted())
  })

  it('describes the interfaces that DESIGN §6 promises, with their scopes', async () => {
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
      ['delete', `${package_}/advisories/{advisory}`, 'registry-manage:rw'],
      ['delete', `${package_}/{version}/quarantine`, 'registry-manage:rw'],
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
  })

  it('names the parameters of each address, and only scopes that there are', async () => {
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

  it('describes what the interfaces take and answer', async () => {
    const { paths } = await read()
    const path = '/api/repositories/{group}/{name}/packages/{vendor}/{package}'
    const body = paths[`${path}/advisories`]?.['post']?.requestBody?.content['application/json']?.schema
    expect(body?.required).toEqual(['title', 'affected_versions'])
    const { call, push } = await aCaller(t)
    await push('1.0.0')
    const answered = (await call('GET', '/packages/acme/lib')).json() as object
    const described = paths[path]?.['get']?.responses['200']?.content?.['application/json']?.schema
    expect(Object.keys(described?.properties ?? {})).toEqual(Object.keys(answered))
  })
})

/** The interfaces' addresses, `/api/user` and so on, from the tree of routes that Fastify prints. */
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
