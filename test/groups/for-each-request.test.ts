import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret, kindOfToken, makeSecret, type TokenKind } from '../../src/domain/secrets.ts'
import { findAccess, type RegistryRequest } from '../../src/groups/access.ts'
import { changeRepositoryName } from '../../src/groups/group-lifecycle.ts'
import {
  listAnyDocuments,
  listPackageDocuments,
  listRootDocuments,
  type WantedDocument,
} from '../../src/packages/documents/find-documents.ts'
import { aDeployToken, aName, aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { anAccessToken, anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { expire } from '../support/rows.ts'
import { analyze, explaining } from '../support/statistics.ts'
import { markRevoked } from '../support/token-rows.ts'

const t = useApp()
const terms = { baseUrl: 'http://svc.test', freshSeconds: 60 }

function aRequest(path: string, token: string | null): RegistryRequest {
  const [group = '', name = ''] = path.split('/')
  return {
    group,
    name,
    token: token === null ? null : { kind: kindOfToken(token) as TokenKind, hash: hashSecret(token) },
    principalOf: (token, accountId) => ({ ...operator, via: 'api', token, accountId }),
    key: '',
  }
}

/** Wants the documents of three packages, of which the repositories below have one. */
function threeDocuments(target: RegistryRequest) {
  return ['acme/none', 'acme/lib', 'acme/other'].map((packageName) => ({ target, packageName, isDev: false }))
}

/** Makes a renamed repository with a package, and tokens for it. `paths` are its paths, and others. */
async function aScene() {
  const repository = await aRepository(t.db)
  const { push, account, token: personal } = await aPublisher(t, { repository })
  await push('1.0.0')
  const application = await anApplication(t.db, { scopes: ['registry-package:r'] })
  const access = await anAccessToken(t.db, await anAuthorization(t.db, account, application))
  const deploy = await aDeployToken(t.db, repository.group, { repositories: [repository] })
  const unknown = makeSecret('personal')
  const { path: formerPath } = repository
  const name = aName('renamed')
  await changeRepositoryName(t.db, operator, repository.id, name)
  const path = `${formerPath.split('/')[0]}/${name}`
  const other = await aRepository(t.db, { visibility: 'public' })
  return { tokens: { access, personal, deploy, unknown }, paths: [path, formerPath, other.path, 'no/where'] }
}

describe('a statement for many requests', () => {
  it('finds the same for each request, whichever requests share it', async () => {
    const { tokens, paths } = await aScene()
    const targets = [...Object.values(tokens), null].flatMap((token) =>
      paths.map((path) => aRequest(path, token)),
    )
    // Without new statistics, PostgreSQL would plan queries as for the empty tables of a minute ago.
    await analyze(t.db)
    const read = async (wanted: WantedDocument[]) => {
      const found = await listPackageDocuments(t.db, wanted, terms.baseUrl)
      const described = found.map(({ access, document }) => [access, document?.ownerId ?? null])
      const any = await listAnyDocuments(t.db, wanted, terms)
      expect(any.map(({ access, document }) => [access, document?.ownerId ?? null])).toEqual(described)
      const roots = await listRootDocuments(
        t.db,
        wanted.map(({ target }) => target),
        terms.baseUrl,
      )
      expect(roots.map(({ access, createdAt }) => [access, createdAt !== null])).toEqual(
        found.map(({ access }) => [access, access.repositoryId !== null]),
      )
      return described
    }
    const apart = await Promise.all(
      targets.map(async (target) => {
        const [none, lib, other] = await read(threeDocuments(target))
        const access = await findAccess(t.db, target)
        expect([none, lib?.[0], other]).toEqual([[access, null], access, [access, null]])
        return [none, lib, other]
      }),
    )
    const packages = apart.flat().filter((one) => one?.[1])
    // Two paths lead to the package, with three live tokens and without a token.
    expect(packages).toHaveLength(8)
    expect(await read(targets.flatMap(threeDocuments))).toEqual(apart.flat())
    const shuffled = targets.flatMap(threeDocuments).reverse()
    expect(await read(shuffled)).toEqual(apart.flat().reverse())
  })

  it('finds nothing for a token that is not live', async () => {
    const { tokens, paths } = await aScene()
    const { personal, unknown } = tokens
    await markRevoked(t.db, personal)
    await expire(t.db, 'deploy_token', { tokenHash: hashSecret(tokens.deploy) })
    for (const token of [personal, unknown, tokens.deploy]) {
      for (const path of paths) {
        const { isRoleWithheld, ...access } = await findAccess(t.db, aRequest(path, token))
        expect(isRoleWithheld).toBe(false)
        expect(Object.values(access)).toEqual(Object.values(access).map(() => null))
      }
    }
  })

  it('reads no tables of other kinds of tokens when all have the same one', async () => {
    const { tokens, paths } = await aScene()
    const tables = { access: 'token_pair', personal: 'personal_token', deploy: 'deploy_token' }
    for (const [kind, token] of [...Object.entries(tokens), ['none', null] as const]) {
      const plan: string[] = []
      await listPackageDocuments(
        explaining(t.db, plan),
        threeDocuments(aRequest(paths[0] ?? '', token)),
        terms.baseUrl,
      )
      const read = Object.values(tables).filter((table) =>
        plan.some((line) => line.includes(` on ${table} `)),
      )
      const own = kind === 'unknown' ? 'personal' : kind
      expect([kind, read]).toEqual([kind, kind === 'none' ? [] : [tables[own as keyof typeof tables]]])
    }
  })
})
