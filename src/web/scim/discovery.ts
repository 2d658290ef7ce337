import { schemas } from './resources.ts'

/** How many resources a list has at most. */
export const maxResults = 100

type Kind = 'string' | 'boolean' | 'complex' | 'reference' | 'dateTime'

interface Options {
  required?: boolean
  multiValued?: boolean
  mutability?: 'readOnly' | 'readWrite' | 'immutable'
  uniqueness?: 'none' | 'server'
  caseExact?: boolean
  subAttributes?: readonly object[]
  referenceTypes?: readonly string[]
}

function attribute(name: string, type: Kind, description: string, options: Options = {}) {
  const { required = false, multiValued = false, mutability = 'readWrite', uniqueness = 'none' } = options
  return {
    name,
    type,
    multiValued,
    description,
    required,
    ...(type === 'string' && { caseExact: options.caseExact ?? false }),
    ...(type === 'reference' && { caseExact: true, referenceTypes: options.referenceTypes }),
    mutability,
    returned: 'default',
    uniqueness,
    ...(options.subAttributes && { subAttributes: options.subAttributes }),
  }
}

const userAttributes = [
  attribute('userName', 'string', 'The name at the directory', { required: true, uniqueness: 'server' }),
  attribute('displayName', 'string', 'The name that people see'),
  attribute('name', 'complex', 'The parts of the name', {
    subAttributes: [
      attribute('formatted', 'string', 'Both names. If a new user has no displayName, it is read as that', {
        mutability: 'readOnly',
      }),
      attribute('givenName', 'string', 'The given name'),
      attribute('familyName', 'string', 'The family name'),
    ],
  }),
  attribute('active', 'boolean', 'False disables the account: sessions and tokens stop at once', {
    required: true,
  }),
  attribute('emails', 'complex', 'svc keeps the primary one', {
    multiValued: true,
    subAttributes: [
      attribute('value', 'string', 'The email'),
      attribute('type', 'string', 'The kind of the email: always work', { mutability: 'readOnly' }),
      attribute('primary', 'boolean', 'Always true: one email is kept', { mutability: 'readOnly' }),
    ],
  }),
  attribute('groups', 'complex', 'The groups of the directory', {
    multiValued: true,
    mutability: 'readOnly',
    subAttributes: [
      attribute('value', 'string', 'The id of the group', { mutability: 'readOnly', caseExact: true }),
      attribute('display', 'string', 'The name of the group', { mutability: 'readOnly' }),
      attribute('$ref', 'reference', 'The URL of the group', {
        mutability: 'readOnly',
        referenceTypes: ['Group'],
      }),
    ],
  }),
]

const groupAttributes = [
  attribute('displayName', 'string', 'The name, which the group map of the provider uses', {
    required: true,
    uniqueness: 'server',
  }),
  attribute('members', 'complex', 'The users of the group', {
    multiValued: true,
    subAttributes: [
      attribute('value', 'string', 'The id of the user', { mutability: 'immutable', caseExact: true }),
      attribute('display', 'string', 'The name of the user', { mutability: 'readOnly' }),
      attribute('type', 'string', 'The kind of the member: always User', { mutability: 'readOnly' }),
      attribute('$ref', 'reference', 'The URL of the user', {
        mutability: 'immutable',
        referenceTypes: ['User'],
      }),
    ],
  }),
]

/** Describes what svc supports of SCIM (RFC 7643 §5). */
export function describeService(url: string) {
  return {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig'],
    patch: { supported: true },
    bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
    filter: { supported: true, maxResults },
    changePassword: { supported: false },
    sort: { supported: false },
    etag: { supported: false },
    authenticationSchemes: [
      {
        type: 'oauthbearertoken',
        name: 'Bearer token',
        description: 'A personal access token of a site administrator that was made with --admin',
        primary: true,
      },
    ],
    meta: { resourceType: 'ServiceProviderConfig', location: `${url}/ServiceProviderConfig` },
  }
}

/** Describes the kinds of resources (RFC 7643 §6). */
export function describeResourceTypes(url: string) {
  return (['User', 'Group'] as const).map((name) => ({
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:ResourceType'],
    id: name,
    name,
    endpoint: `/${name}s`,
    schema: schemas[name],
    meta: { resourceType: 'ResourceType', location: `${url}/ResourceTypes/${name}` },
  }))
}

/** Describes the attributes of users and groups (RFC 7643 §7). */
export function describeSchemas(url: string) {
  return (['User', 'Group'] as const).map((name) => ({
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:Schema'],
    id: schemas[name],
    name,
    attributes: name === 'User' ? userAttributes : groupAttributes,
    meta: { resourceType: 'Schema', location: `${url}/Schemas/${schemas[name]}` },
  }))
}
