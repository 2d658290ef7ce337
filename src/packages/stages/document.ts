import type pg from 'pg'
import { transaction } from '../../database/database.ts'
import { registryUrl } from '../../groups/repositories.ts'
import { entryOf } from '../documents/entry.ts'
import { renderStagedDocument } from '../documents/render.ts'
import { lockNamedPackage } from '../tables/packages.ts'
import type { Stage } from '../tables/staged-versions.ts'

/**
 * Returns the p2 document of a staged package, with the published versions of the package. `path` is that of the
 * repository. The transaction holds the package, so that the versions belong together.
 */
export async function renderStage(
  pool: pg.Pool,
  stage: Stage,
  { path, baseUrl }: { path: string; baseUrl: string },
): Promise<Buffer> {
  const { repositoryId, packageName, isDev, composerVersion: composer, stagedAt: publishedAt } = stage
  const staged = { ...stage, composer, publishedAt }
  return transaction(pool, async (tx) => {
    const held = await lockNamedPackage(tx, repositoryId, packageName)
    if (held) return renderStagedDocument(tx, held, staged, { isDev, baseUrl })
    const entry = entryOf(staged, { name: packageName, abandoned: null }, registryUrl(baseUrl, path))
    const packages = { [packageName]: [entry] }
    return Buffer.from(JSON.stringify({ packages, minified: 'composer/2.0', 'security-advisories': [] }))
  })
}
