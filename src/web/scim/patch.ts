import { ScimError, type ScimPatchOperation, scimPatch } from 'scim-patch'
import * as z from 'zod'
import { ScimRefusal } from './errors.ts'
import { readBody } from './resources.ts'

const maxOperations = 100

const PatchBody = z.object({
  Operations: z
    .array(
      z.object({
        op: z.string().refine((op) => /^(?:add|remove|replace)$/i.test(op), 'must be add, remove or replace'),
        path: z.string().max(1000).optional(),
        value: z.unknown().optional(),
      }),
    )
    .min(1)
    .max(maxOperations),
})

/** Names that reach the prototype of an object instead of an attribute. */
const prototypes = /__proto__|constructor|prototype/i

/**
 * Applies the operations of a PATCH (RFC 7644 §3.5.2) to a resource, and returns it. They may come as Entra ID sends them: with
 * capital letters, without a path, and with the members to remove in the value. Throws for operations that cannot be applied.
 */
export function applyPatch<Resource extends object>(resource: Resource, body: unknown): unknown {
  const { Operations: operations } = readBody(PatchBody, body)
  try {
    return scimPatch(resource as never, operations.map(toOperation), {
      mutateDocument: false,
      treatMissingAsAdd: true,
    })
  } catch (error) {
    if (error instanceof ScimRefusal) throw error
    if (error instanceof ScimError) throw new ScimRefusal('invalidPath', `Operations: ${error.message}`)
    // The library also fails with a TypeError where a path leads into a text.
    throw new ScimRefusal('noTarget', 'Operations: a path leads to nothing that can be changed')
  }
}

function toOperation({ op, path, value }: z.output<typeof PatchBody>['Operations'][number]) {
  const names = typeof value === 'object' && value !== null ? Object.keys(value) : []
  if ([path ?? '', ...names].some((name) => prototypes.test(name))) {
    throw new ScimRefusal('invalidPath', 'Operations: this is not the name of an attribute')
  }
  const isOfMembers = path !== undefined && /^members$/i.test(path)
  return {
    op: op.toLowerCase(),
    ...(path !== undefined && { path }),
    // A member is its id. What else a directory sends about it would make it another one.
    ...(value !== undefined && { value: isOfMembers ? onlyIds(value) : value }),
  } as ScimPatchOperation
}

function onlyIds(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(onlyIds)
  return typeof value === 'object' && value !== null && 'value' in value ? { value: value.value } : value
}
