import * as z from 'zod'
import type { DirectoryGroup, GroupOfDirectory } from '../../accounts/directory/directory-groups.ts'
import type { DirectoryPerson, DirectoryUser } from '../../accounts/directory/directory-users.ts'
import { isEmail } from '../../domain/email.ts'
import { cleanLine } from '../../domain/plain-text.ts'
import { ScimRefusal } from './errors.ts'

export const schemas = {
  User: 'urn:ietf:params:scim:schemas:core:2.0:User',
  Group: 'urn:ietf:params:scim:schemas:core:2.0:Group',
  list: 'urn:ietf:params:scim:api:messages:2.0:ListResponse',
} as const

/** A name is shown on pages: one line of at most 100 characters. */
const name = z
  .string()
  .max(1000)
  .nullish()
  .transform((text) =>
    Array.from(cleanLine(text ?? ''))
      .slice(0, 100)
      .join(''),
  )
/** Entra ID sends booleans as text, too: `"False"`. */
const flag = z.union([
  z.boolean(),
  z
    .string()
    .regex(/^(?:true|false)$/i, 'must be true or false')
    .transform((text) => text.toLowerCase() === 'true'),
])
const line = (max: number) =>
  z
    .string()
    .max(max)
    .refine((text) => cleanLine(text) === text, 'must be one line of text')
const externalId = line(255)
  .nullish()
  .transform((id) => id || null)

/** What svc reads of a user. Directories may send other attributes, which are ignored (RFC 7644 §3.3). */
const UserBody = z.object({
  userName: line(254).min(1),
  externalId,
  displayName: name,
  name: z.object({ formatted: name, givenName: name, familyName: name }).nullish(),
  emails: z
    .array(
      z.object({ value: z.string().max(300).nullish(), type: z.string().nullish(), primary: flag.nullish() }),
    )
    .max(20)
    .nullish(),
  active: flag.nullish(),
})

const GroupBody = z.object({
  displayName: line(256).min(1),
  externalId,
  members: z
    .array(z.object({ value: z.union([z.string().max(100), z.number().transform(String)]) }))
    .max(20_000)
    .nullish(),
})

/** Reads a body by its schema. Throws a refusal that names the attribute and the rule. */
export function readBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const read = schema.safeParse(body ?? {})
  if (read.success) return read.data
  const [issue] = read.error.issues
  throw new ScimRefusal('invalidValue', `${issue?.path.join('.') || 'the body'}: ${issue?.message}`)
}

/** Reads the person in the body of a POST or PUT, or in a changed resource. */
export function readUser(body: unknown): DirectoryPerson {
  const { userName, emails, active, ...user } = readBody(UserBody, body)
  const { givenName = '', familyName = '', formatted = '' } = user.name ?? {}
  const given = (emails ?? []).filter(({ value }) => Boolean(value))
  const email = (given.find(({ primary }) => primary) ?? given[0])?.value ?? null
  if (email !== null && !isEmail(email)) {
    throw new ScimRefusal('invalidValue', 'emails: the primary one is not an email address')
  }
  return {
    userName,
    externalId: user.externalId,
    displayName: user.displayName || formatted || `${givenName} ${familyName}`.trim(),
    givenName,
    familyName,
    email,
    isActive: active ?? null,
  }
}

/** Reads the group in the body of a POST or PUT, or in a changed resource. */
export function readGroup(body: unknown): GroupOfDirectory {
  const { displayName, externalId: id, members } = readBody(GroupBody, body)
  return { displayName, externalId: id, members: (members ?? []).map(({ value }) => value) }
}

/** What operations of a PATCH can change of a user. An attribute without a value is left out (RFC 7643 §2.5). */
export function changeableUser(user: DirectoryUser) {
  const { userName, externalId: id, displayName, givenName, familyName, email, isActive } = user
  const formatted = `${givenName} ${familyName}`.trim()
  return {
    schemas: [schemas.User],
    userName,
    ...(id !== null && { externalId: id }),
    ...(displayName !== '' && { displayName }),
    ...(formatted !== '' && {
      name: { formatted, ...(givenName !== '' && { givenName }), ...(familyName !== '' && { familyName }) },
    }),
    ...(email !== null && { emails: [{ value: email, type: 'work', primary: true }] }),
    active: isActive,
  }
}

/** Describes a user of a directory (RFC 7643 §4.1). `url` is the base URL of the directory's endpoints. */
export function describeUser(user: DirectoryUser, url: string) {
  return {
    ...changeableUser(user),
    id: user.id,
    groups: user.groups.map(({ id, displayName }) => ({
      value: id,
      display: displayName,
      $ref: `${url}/Groups/${id}`,
    })),
    meta: metaOf('User', user, url),
  }
}

/** Describes a group of a directory (RFC 7643 §4.2). */
export function describeGroup(group: DirectoryGroup, url: string) {
  const { id, displayName, externalId: given, members } = group
  return {
    schemas: [schemas.Group],
    id,
    displayName,
    ...(given !== null && { externalId: given }),
    ...(members?.length && {
      members: members.map((member) => ({
        value: member.id,
        display: member.userName,
        $ref: `${url}/Users/${member.id}`,
        type: 'User',
      })),
    }),
    meta: metaOf('Group', group, url),
  }
}

function metaOf(
  resourceType: 'User' | 'Group',
  { id, createdAt, changedAt }: { id: string; createdAt: Date; changedAt: Date },
  url: string,
) {
  return {
    resourceType,
    created: createdAt.toISOString(),
    lastModified: changedAt.toISOString(),
    location: `${url}/${resourceType}s/${id}`,
  }
}
