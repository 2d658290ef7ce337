import type { LastUse } from '../last-use.ts'
import type { Parts } from '../parts.ts'

/** What the interfaces are built from. */
export interface ApiParts extends Parts {
  lastUse: LastUse
}
