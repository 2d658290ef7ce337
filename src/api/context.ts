import type pg from 'pg'
import type { AppContext } from '../context.ts'
import type { LastUse } from '../jobs/last-use.ts'
import type { UpstreamClient } from '../registry/upstreams/fetch.ts'

/** What the interfaces are built from. */
export interface ApiContext extends AppContext {
  /** For changes of packages: a few connections of their own, because they wait for locks. */
  changes: pg.Pool
  lastUse: LastUse
  upstreamClient: UpstreamClient
}
