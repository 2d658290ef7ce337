import type { AppContext } from '../context.ts'
import type { LastUse } from '../jobs/last-use.ts'

/** What the interfaces are built from. */
export interface ApiContext extends AppContext {
  lastUse: LastUse
}
