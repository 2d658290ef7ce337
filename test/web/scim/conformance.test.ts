import { describe, expect, it } from 'vitest'
import { aName, anAccount, anAdminToken } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { openSignUp, useIdentityProvider } from '../../support/identity-provider.ts'
import { freePort } from '../../support/program.ts'

// What a client can ask of every server, as it reads it from the schemas: the checks of scim2-tester.
const acme = useIdentityProvider('acme', await freePort(), 'http://svc.test')
const t = useApp({ ...openSignUp, ...acme.environment })
const base = '/api/scim/acme/v2'

interface Attribute {
  name: string
  type: string
  multiValued: boolean
  required: boolean
  mutability: string
  description: string
  returned: string
  uniqueness: string
  caseExact?: boolean
  referenceTypes?: string[]
  subAttributes?: Attribute[]
}
type Kind = 'User' | 'Group'
interface Resource {
  id: string
  meta: { location: string; resourceType: string }
  schemas: string[]
  schema: string
  userName: string
  externalId: string
  [name: string]: unknown
}

let token: string | undefined

async function send(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: object) {
  token ??= await anAdminToken(t.db, await anAccount(t.db, { isAdmin: true }), {
    scopes: ['group-manage:rw'],
  })
  return t.app.inject({
    method,
    url: `${base}/${path}`,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body && { 'content-type': 'application/scim+json' }),
    },
    ...(body && { payload: JSON.stringify(body) }),
  })
}

const schemaOf = (kind: Kind) => `urn:ietf:params:scim:schemas:core:2.0:${kind}`

async function attributesOf(kind: Kind): Promise<Attribute[]> {
  const { attributes } = (await send('GET', `Schemas/${schemaOf(kind)}`)).json<{ attributes: Attribute[] }>()
  // The schemas of resources do not list what all of them have (RFC 7643 §3.1).
  const externalId = { name: 'externalId', type: 'string', multiValued: false, required: false }
  return [...attributes, { ...externalId, mutability: 'readWrite' } as Attribute]
}

const isWritable = ({ mutability }: Attribute) => mutability !== 'readOnly'

/** A random value for an attribute, as its schema describes it. */
async function aValue(attribute: Attribute, parent = ''): Promise<unknown> {
  const { name, type, multiValued, subAttributes = [] } = attribute
  if (name === 'members') {
    const user = await aResource('User', [])
    return [{ value: user.id, $ref: user.meta.location }]
  }
  let value: unknown = aName(name)
  if (type === 'boolean') value = true
  else if (type === 'complex') {
    value = Object.fromEntries(
      await Promise.all(
        subAttributes.filter(isWritable).map(async (sub) => [sub.name, await aValue(sub, name)]),
      ),
    )
  } else if (parent === 'emails') value = `${aName('mail')}@example.com`
  return multiValued ? [value] : value
}

/** Creates a resource with the required attributes and others. */
async function aResource(kind: Kind, others: readonly string[]): Promise<Resource> {
  const wanted = (await attributesOf(kind)).filter(({ name, required }) => required || others.includes(name))
  const entries = await Promise.all(
    wanted.map(async (attribute) => [attribute.name, await aValue(attribute)] as const),
  )
  const body = { schemas: [schemaOf(kind)], ...Object.fromEntries(entries) }
  const response = await send('POST', `${kind}s`, body)
  expect([response.body, response.statusCode]).toEqual([response.body, 201])
  const made = response.json<Resource>()
  expect(made).toMatchObject(body)
  return made
}

const optional = { User: ['displayName', 'name', 'emails', 'externalId'], Group: ['members', 'externalId'] }

/** The list response of a request. */
const listOf = (response: Awaited<ReturnType<typeof send>>) => {
  expect(response.statusCode).toBe(200)
  return response.json<{
    totalResults: number
    itemsPerPage: number
    startIndex: number
    Resources: Resource[]
  }>()
}

describe('the description of a directory', () => {
  it('has each resource type with its schema, in the list and by its id', async () => {
    const types = listOf(await send('GET', 'ResourceTypes')).Resources
    expect(types.map(({ id }) => id)).toEqual(['User', 'Group'])
    for (const type of types) {
      expect((await send('GET', `ResourceTypes/${type.id}`)).json()).toEqual(type)
      const schema = (await send('GET', `Schemas/${type.schema}`)).json<Resource>()
      expect(schema).toMatchObject({ id: type.schema, name: type.id, meta: { resourceType: 'Schema' } })
    }
    const all = listOf(await send('GET', 'Schemas')).Resources
    expect(all.map(({ id }) => id)).toEqual(types.map((type) => type.schema))
  })

  it('tells each characteristic of an attribute', async () => {
    const check = (attribute: Attribute): void => {
      expect(attribute).toMatchObject({
        name: expect.stringMatching(/^\$?[a-zA-Z]+$/),
        type: expect.stringMatching(/^(?:string|boolean|complex|reference)$/),
        multiValued: expect.any(Boolean),
        required: expect.any(Boolean),
        description: expect.stringMatching(/./),
        mutability: expect.stringMatching(/^(?:readOnly|readWrite|immutable)$/),
        returned: 'default',
        uniqueness: expect.stringMatching(/^(?:none|server)$/),
      })
      if (['string', 'reference'].includes(attribute.type))
        expect(attribute.caseExact).toEqual(expect.any(Boolean))
      if (attribute.type === 'reference') expect(attribute.referenceTypes).toHaveLength(1)
      expect(attribute.subAttributes !== undefined).toBe(attribute.type === 'complex')
      attribute.subAttributes?.forEach(check)
    }
    for (const { attributes } of listOf(await send('GET', 'Schemas')).Resources)
      (attributes as Attribute[]).forEach(check)
  })

  it.each(['ServiceProviderConfig', 'ResourceTypes', 'Schemas'])('can only be read: %s', async (path) => {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'] as const) {
      expect([method, (await send(method, path)).statusCode]).toEqual([method, 405])
    }
  })

  it('has an error in the format of SCIM where nothing is', async () => {
    for (const path of [
      'ResourceTypes/Nothing',
      'Schemas/urn:nothing',
      'Users/0',
      'Groups/0',
      aName('random'),
    ]) {
      const response = await send('GET', path)
      expect([path, response.statusCode, response.headers['content-type']]).toEqual([
        path,
        404,
        'application/scim+json; charset=utf-8',
      ])
      expect(response.json()).toMatchObject({
        schemas: ['urn:ietf:params:scim:api:messages:2.0:Error'],
        status: '404',
        detail: expect.any(String),
      })
    }
  })
})

describe.each<Kind>(['User', 'Group'])('a resource of the type %s', (kind) => {
  it('is created, read by its id and in the list, replaced and deleted', async () => {
    for (const others of [[], optional[kind]]) {
      const made = await aResource(kind, others)
      expect(made.meta.resourceType).toBe(kind)
      expect((await send('GET', `${kind}s/${made.id}`)).json()).toEqual(made)
      const found = listOf(await send('GET', `${kind}s?filter=id%20eq%20%22${made.id}%22`))
      expect([found.totalResults, found.Resources]).toEqual([1, [made]])
      const other = await aResource(kind, optional[kind])
      expect((await send('DELETE', `${kind}s/${other.id}`)).statusCode).toBe(204)
      expect((await send('GET', `${kind}s/${other.id}`)).statusCode).toBe(404)
      const { id: _, meta: _meta, ...body } = other
      const replaced = await send('PUT', `${kind}s/${made.id}`, body)
      expect([replaced.body, replaced.statusCode]).toEqual([replaced.body, 200])
      expect(replaced.json()).toMatchObject({ ...body, id: made.id })
      expect((await send('DELETE', `${kind}s/${made.id}`)).statusCode).toBe(204)
    }
  })

  it.each([
    ['one resource', (id: string, query: string) => send('GET', `${kind}s/${id}?${query}`)],
    ['the list', (_id: string, query: string) => send('GET', `${kind}s?${query}`)],
    ['a search', (_id: string, query: string) => search(`${kind}s/.search`, query)],
    ['a search of everything', (_id: string, query: string) => search('.search', query)],
  ])('has only the attributes that a request asks for: %s', async (_, ask) => {
    const made = await aResource(kind, optional[kind])
    const shown = async (query: string) => {
      const body = (await ask(made.id, query)).json<Resource & { Resources?: Resource[] }>()
      return (
        body.Resources?.find(({ id, schemas }) => id === made.id && schemas[0] === schemaOf(kind)) ?? body
      )
    }
    expect(Object.keys(await shown('attributes=externalId')).toSorted()).toEqual([
      'externalId',
      'id',
      'schemas',
    ])
    const { externalId: _id, ...others } = made
    expect(await shown('excludedAttributes=externalId')).toEqual(others)
  })

  it.each(['add', 'replace'] as const)('keeps each value that a PATCH can %s', async (op) => {
    const made = await aResource(kind, op === 'replace' ? optional[kind] : [])
    for (const attribute of (await attributesOf(kind)).filter(isWritable)) {
      const value = await aValue(attribute)
      const operations = { Operations: [{ op, path: attribute.name, value }] }
      const response = await send('PATCH', `${kind}s/${made.id}`, operations)
      expect([attribute.name, response.body, response.statusCode < 300]).toEqual([
        attribute.name,
        response.body,
        true,
      ])
      expect((await send('GET', `${kind}s/${made.id}`)).json()).toMatchObject({ [attribute.name]: value })
    }
  })

  it('loses each optional attribute that a PATCH removes, and no required one', async () => {
    const made = await aResource(kind, optional[kind])
    for (const { name, required } of (await attributesOf(kind)).filter(isWritable)) {
      expect(made).toHaveProperty(name)
      const operations = { Operations: [{ op: 'remove', path: name }] }
      const response = await send('PATCH', `${kind}s/${made.id}`, operations)
      const left = (await send('GET', `${kind}s/${made.id}`)).json<Resource>()
      if (required) {
        expect([name, response.statusCode, response.json().scimType]).toEqual([name, 400, 'mutability'])
        expect(left).toMatchObject({ [name]: made[name] })
      } else expect(left).not.toHaveProperty(name)
    }
  })
})

describe('a search', () => {
  it('has the parts of all users and then of all groups, and only those that its filter can compare', async () => {
    for (const kind of ['User', 'User', 'Group', 'Group'] as const) await aResource(kind, [])
    const ids = async (body: object) => {
      const { Resources } = listOf(await send('POST', '.search', body))
      return Resources.map(({ id, meta }) => `${meta.resourceType} ${id}`)
    }
    const all = await ids({})
    expect(all).toEqual(all.toSorted((one, other) => (one[0] === other[0] ? 0 : one < other ? 1 : -1)))
    const parts: string[] = []
    for (let startIndex = 1; startIndex <= all.length; startIndex += 3) {
      parts.push(...(await ids({ startIndex, count: 3 })))
    }
    expect(parts).toEqual(all)
    const user = await aResource('User', ['externalId'])
    expect(await ids({ filter: `userName eq "${user.userName}"` })).toEqual([`User ${user.id}`])
    const group = await aResource('Group', ['externalId'])
    expect(await ids({ filter: `externalId eq "${group.externalId}"` })).toEqual([`Group ${group.id}`])
    const refused = await send('POST', '.search', { filter: 'userName eq "a" and displayName eq "b"' })
    expect([refused.statusCode, refused.json().scimType]).toEqual([400, 'invalidFilter'])
  })
})

/** Searches with the parameters of a query. */
function search(path: string, query: string) {
  const lists = [...new URLSearchParams(query)].map(([name, value]) => [name, value.split(',')])
  const schemas = ['urn:ietf:params:scim:api:messages:2.0:SearchRequest']
  return send('POST', path, { schemas, ...Object.fromEntries(lists) })
}
