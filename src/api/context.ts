import type pg from 'pg'
import type { AppContext } from '../context.ts'
import type { LastUse } from '../jobs/last-use.ts'
import type { UpstreamClient } from '../registry/upstreams/fetch.ts'

/** The parts that the API's endpoints need. */
export interface ApiContext extends AppContext {
  /** A separate small pool for changes of packages, which wait for locks. */
  changes: pg.Pool
  lastUse: LastUse
  upstreamClient: UpstreamClient
}
