import type { Parts } from '../app.ts'
import type { LastUse } from '../last-use.ts'

/** What the interfaces are built from. */
export interface ApiParts extends Parts {
  lastUse: LastUse
}
