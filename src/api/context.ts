import type { AppContext } from '../context.ts'
import type { LastUse } from '../jobs/last-use.ts'
import type { UpstreamClient } from '../registry/upstreams/fetch.ts'

/** What the interfaces are built from. */
export interface ApiContext extends AppContext {
  lastUse: LastUse
  upstreamClient: UpstreamClient
}
