import { ScimError, type ScimPatchOperation, scimPatch } from 'scim-patch'
import * as z from 'zod'
import type { GroupOfDirectory } from '../../accounts/directory/directory-groups.ts'
import type { DirectoryPerson, DirectoryUser } from '../../accounts/directory/directory-users.ts'
import { ScimRefusal } from './errors.ts'
import { withoutSchema } from './filter.ts'
import { changeableUser, readBody, readGroup, readUser } from './resources.ts'

const maxOperations = 100

const PatchBody = z.object({
  Operations: z
    .array(
      z.object({
        op: z
          .string()
          .transform((op) => op.toLowerCase())
          .pipe(z.enum(['add', 'remove', 'replace'])),
        path: z.string().max(1000).optional(),
        value: z.unknown().optional(),
      }),
    )
    .min(1)
    .max(maxOperations),
})
type Operation = z.output<typeof PatchBody>['Operations'][number]

/** Names that reach the prototype of an object instead of an attribute. */
const prototypes = /__proto__|constructor|prototype/i

/**
 * Returns what the operations of a PATCH (RFC 7644 §3.5.2) make of a user. They may come as Entra ID sends them: with capital
 * letters and without a path. Throws for operations that cannot be applied.
 */
export function patchUser(user: DirectoryUser, body: unknown): DirectoryPerson {
  const changed = apply(changeableUser(user), readBody(PatchBody, body).Operations, ['userName', 'active'])
  const { displayName } = changed as { displayName?: unknown }
  // Without a displayName, a new user gets one of the other names. A user who has lost theirs does not.
  return { ...readUser(changed), ...(displayName === undefined && { displayName: '' }) }
}

/** A path to one member, as Okta and Entra ID write it. */
const oneMember = /^members\[value eq "([^"]{1,100})"\]$/i

/**
 * Returns what the operations of a PATCH make of a group. Members to remove stand in the path or in the value. They are changed
 * here, because the library compares each value with each member.
 */
export function patchGroup(
  { displayName, externalId, members }: GroupOfDirectory,
  body: unknown,
): GroupOfDirectory {
  const ids = new Set(members)
  let resource: unknown = { displayName, ...(externalId !== null && { externalId }) }
  for (const operation of readBody(PatchBody, body).Operations) {
    const { op, path, value } = operation
    const [, one] = oneMember.exec(path ?? '') ?? []
    if (one !== undefined && op === 'remove') ids.delete(one)
    else if (path !== undefined && /^members$/i.test(path)) changeMembers(ids, op, value)
    else if (path === undefined && hasMembers(value)) {
      const { members: given, ...others } = value
      changeMembers(ids, op, given)
      if (Object.keys(others).length > 0)
        resource = apply(resource as object, [{ op, value: others }], ['displayName'])
    } else resource = apply(resource as object, [operation], ['displayName'])
  }
  return { ...readGroup(resource), members: [...ids] }
}

const hasMembers = (value: unknown): value is { members: unknown } =>
  typeof value === 'object' && value !== null && 'members' in value

function changeMembers(ids: Set<string>, op: Operation['op'], value: unknown): void {
  // Without a value all members are removed.
  if (op === 'replace' || (op === 'remove' && value === undefined)) ids.clear()
  if (value === undefined) return
  const { members } = readGroup({ displayName: '-', members: [value].flat() })
  for (const id of members) {
    if (op === 'remove') ids.delete(id)
    else ids.add(id)
  }
}

/** Applies operations to a resource. The required attributes cannot be removed. */
function apply(resource: object, operations: readonly Operation[], required: readonly string[]): unknown {
  for (const { op, path = '', value } of operations) {
    if (op === 'remove' && path === '') {
      throw new ScimRefusal('noTarget', 'Operations: a removal needs a path')
    }
    const attribute = withoutSchema(path).toLowerCase()
    if (op === 'remove' && required.some((name) => name.toLowerCase() === attribute)) {
      throw new ScimRefusal('mutability', `Operations: ${path} cannot be removed`)
    }
    const names = typeof value === 'object' && value !== null ? Object.keys(value) : []
    if ([path, ...names].some((name) => prototypes.test(name))) {
      throw new ScimRefusal('invalidPath', 'Operations: this is not the name of an attribute')
    }
  }
  try {
    return scimPatch(resource as never, operations as ScimPatchOperation[], {
      mutateDocument: false,
      treatMissingAsAdd: true,
    })
  } catch (error) {
    if (error instanceof ScimError) throw new ScimRefusal('invalidPath', `Operations: ${error.message}`)
    // The library also fails with a TypeError where a path leads into a text.
    throw new ScimRefusal('noTarget', 'Operations: a path leads to nothing that can be changed')
  }
}
