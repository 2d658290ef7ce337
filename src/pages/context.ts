import type pg from 'pg'
import type { AppContext } from '../context.ts'
import type { ReadmeRenderer } from '../registry/readmes/render-readme.ts'
import type { UpstreamClient } from '../registry/upstreams/fetch.ts'

/** What the pages of registries are built from. */
export interface PagesContext extends AppContext {
  readmes: ReadmeRenderer
  /** For changes of packages: a few connections of their own, because they wait for locks. */
  changes: pg.Pool
  /** The OpenAPI document of the API. */
  describeApi: () => Promise<Record<string, unknown>>
  upstreamClient: UpstreamClient
}
