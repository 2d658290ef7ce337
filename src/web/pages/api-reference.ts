/** A part of an OpenAPI document. */
interface Node {
  [name: string]: unknown
}

/** A type, for example `string`, `one of a, b`, or `list of Version or null`. */
export interface DescribedType {
  text: string
  /** The named type in the text, which the page of the types describes. Null without one. */
  reference: string | null
}

/** A member of an object, or a parameter, as the reference shows it. */
export interface DescribedField {
  name: string
  type: DescribedType
  isRequired: boolean
  description: string
  /** An example as JSON. Empty without one. */
  example: string
}

/** An object that responses contain. */
export interface ResponseType {
  name: string
  description: string
  fields: DescribedField[]
}

/** A parameter of an endpoint. */
export interface DescribedParameter extends DescribedField {
  /** `path`, `query` or `header`. */
  place: string
}

/** An endpoint of the API. */
export interface Operation {
  id: string
  method: string
  path: string
  summary: string
  description: string
  parameters: DescribedParameter[]
  body: DescribedField[]
  responses: { status: string; type: DescribedType | null }[]
}

/** The endpoints of one section. */
export interface OperationGroup {
  title: string
  description: string
  operations: Operation[]
}

const methods = ['get', 'put', 'post', 'patch', 'delete']

/** Returns the endpoints of an OpenAPI document by section, with parameters, bodies and responses. */
export function describeOperations(document: Node): OperationGroup[] {
  const all = Object.entries(nodeOf(document['paths'])).flatMap(([path, operations]) =>
    methods.flatMap((method) => {
      const operation = nodeOf(operations)[method]
      return operation === undefined ? [] : [{ path, method, operation: nodeOf(operation) }]
    }),
  )
  return listOf(document['tags']).map((tag) => ({
    title: textOf(tag['name']),
    description: textOf(tag['description']),
    operations: all
      .filter(({ operation }) => textsOf(operation['tags']).includes(textOf(tag['name'])))
      .map(({ path, method, operation }) => describeOperation(document, path, method, operation)),
  }))
}

function describeOperation(document: Node, path: string, method: string, operation: Node): Operation {
  const body = schemaOf(nodeOf(operation['requestBody']))
  return {
    id: textOf(operation['operationId']) || `${method}${path.replace(/[^\w]+/g, '-')}`,
    method: method.toUpperCase(),
    path,
    summary: textOf(operation['summary']),
    description: textOf(operation['description']),
    parameters: listOf(operation['parameters']).map((parameter) => ({
      ...describeField(
        textOf(parameter['name']),
        nodeOf(parameter['schema']),
        parameter['required'] === true,
      ),
      place: textOf(parameter['in']),
      description: textOf(parameter['description']) || textOf(nodeOf(parameter['schema'])['description']),
    })),
    body: fieldsOf(document, body),
    responses: Object.entries(nodeOf(operation['responses'])).map(([status, response]) => {
      const schema = schemaOf(nodeOf(response))
      return { status, type: schema && describeType(schema) }
    }),
  }
}

/** A parameter that is described once has more endpoints than this. */
const fewEndpoints = 4

/**
 * Returns the parameters that many endpoints have in the same way, by their names. They are most of the reference, so it
 * describes them once.
 */
export function listSharedParameters(groups: readonly OperationGroup[]): Map<string, DescribedParameter> {
  const uses = new Map<string, { parameter: DescribedParameter; count: number }>()
  for (const parameter of groups.flatMap(({ operations }) => operations.flatMap((one) => one.parameters))) {
    const key = JSON.stringify(parameter)
    uses.set(key, { parameter, count: (uses.get(key)?.count ?? 0) + 1 })
  }
  const frequent = [...uses.values()].filter(({ count }) => count > fewEndpoints)
  const rising = frequent.toSorted((one, two) => one.count - two.count)
  return new Map(rising.map(({ parameter }) => [parameter.name, parameter]))
}

/** Returns whether a parameter is one of those that are described once. */
export function isShared(
  shared: ReadonlyMap<string, DescribedParameter>,
  parameter: DescribedParameter,
): boolean {
  return JSON.stringify(shared.get(parameter.name)) === JSON.stringify(parameter)
}

/** Returns the objects that the responses of an OpenAPI document contain, also those within others, by name. */
export function describeResponseTypes(document: Node): ResponseType[] {
  const responses = Object.values(nodeOf(document['paths'])).flatMap((operations) =>
    Object.values(nodeOf(operations)).map((operation) => nodeOf(operation)['responses']),
  )
  const found = new Set<string>()
  const waiting: unknown[] = responses
  while (waiting.length > 0) {
    const value = waiting.pop()
    const reference = textOf(nodeOf(value)['$ref'])
    if (reference !== '' && !found.has(nameOf(reference))) {
      found.add(nameOf(reference))
      waiting.push(resolveSchema(document, nodeOf(value)))
    }
    waiting.push(...Object.values(nodeOf(value)))
  }
  return [...found].toSorted().map((name) => {
    const schema = nodeOf(nodeOf(nodeOf(document['components'])['schemas'])[name])
    return { name, description: textOf(schema['description']), fields: fieldsOf(document, schema) }
  })
}

/** Returns the JSON schema of a request or a response. Null without one. */
function schemaOf(message: Node): Node | null {
  const json = nodeOf(message['content'])['application/json']
  return json === undefined ? null : nodeOf(nodeOf(json)['schema'])
}

/** Returns the members of an object, or of the objects in a list. */
function fieldsOf(document: Node, schema: Node | null): DescribedField[] {
  if (!schema) return []
  const resolved = resolveSchema(document, schema)
  if (resolved['type'] === 'array') return fieldsOf(document, nodeOf(resolved['items']))
  const required = textsOf(resolved['required'])
  return Object.entries(nodeOf(resolved['properties'])).map(([name, member]) =>
    describeField(name, nodeOf(member), required.includes(name)),
  )
}

function describeField(name: string, schema: Node, isRequired: boolean): DescribedField {
  const { example } = schema
  return {
    name,
    type: describeType(schema),
    isRequired,
    description: textOf(schema['description']),
    example: example === undefined ? '' : typeof example === 'string' ? example : JSON.stringify(example),
  }
}

function describeType(schema: Node): DescribedType {
  const { $ref: reference, anyOf, oneOf, items } = schema
  if (typeof reference === 'string') return { text: nameOf(reference), reference: nameOf(reference) }
  const parts = [...listOf(anyOf ?? oneOf), nodeOf(items)]
  const named = parts.map((part) => textOf(part['$ref'])).find((reference) => reference !== '')
  return { text: typeOf(schema), reference: named === undefined ? null : nameOf(named) }
}

function resolveSchema(document: Node, schema: Node): Node {
  const reference = textOf(schema['$ref'])
  if (reference === '') return schema
  const schemas = nodeOf(nodeOf(document['components'])['schemas'])
  return nodeOf(schemas[nameOf(reference)])
}

function nameOf(reference: string): string {
  return reference.slice(reference.lastIndexOf('/') + 1)
}

function typeOf(schema: Node): string {
  const { enum: values, type, anyOf, oneOf, items, $ref: reference } = schema
  if (typeof reference === 'string') return nameOf(reference)
  if (Array.isArray(values)) return `one of ${values.map(String).join(', ')}`
  const choices = listOf(anyOf ?? oneOf)
  if (choices.length > 0) return [...new Set(choices.map(typeOf))].join(' or ')
  if (type === 'array') return `list of ${typeOf(nodeOf(items))}`
  if (Array.isArray(type)) return textsOf(type).join(' or ')
  return textOf(type) || 'any'
}

function nodeOf(value: unknown): Node {
  return typeof value === 'object' && value !== null ? (value as Node) : {}
}

function listOf(value: unknown): Node[] {
  return Array.isArray(value) ? value.map(nodeOf) : []
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((text) => typeof text === 'string') : []
}
