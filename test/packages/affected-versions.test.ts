import { describe, expect, it } from 'vitest'
import { findAffectedVersions, findFixes } from '../../src/packages/affected-versions.ts'
import { listVersions } from '../../src/packages/tables/listed-versions.ts'
import { listAdvisories } from '../../src/packages/tables/package-warnings.ts'
import { useApp } from '../support/app.ts'
import { anAdvisory, markDeleted, packageIdOf } from '../support/package-rows.ts'
import { aPublisher } from '../support/registry-actors.ts'

describe('the versions that advisories affect', () => {
  const t = useApp()

  async function aPackage(versions: readonly string[]) {
    const { push, repository } = await aPublisher(t)
    for (const version of versions) await push(version)
    const packageId = await packageIdOf(t.db, repository)
    const affected = async () => {
      const all = await listVersions(t.db, packageId, 'all', { after: null, limit: 100 })
      const found = await findAffectedVersions(t.db, packageId, all, await listAdvisories(t.db, packageId))
      return all.flatMap(({ id, version }) => {
        const one = found?.get(id)
        return one
          ? [`${version}: ${one.advisories.map(({ title }) => title).join('+')}, ${one.fixedIn}`]
          : []
      })
    }
    const fixes = async () =>
      Array.from((await findFixes(t.db, packageId, await listAdvisories(t.db, packageId)))?.values() ?? [])
    return { repository, affected, fixes }
  }

  it('get the next release that none of their advisories affects', async () => {
    const { repository, affected, fixes } = await aPackage([
      ...['1.0.0', '1.0.5', '1.1.0', '2.0.0', '2.0.3', '2.1.0-beta.1', '2.1.0', '3.0.0-some'],
    ])
    await anAdvisory(t.db, repository, { title: 'A', affectedVersions: '<1.0.5 || >=2.0,<2.0.3' })
    expect(await affected()).toEqual(['2.0.0: A, 2.0.3', '1.0.0: A, 1.0.5'])
    expect(await fixes()).toEqual([['2.0.3', '1.0.5']])
    await anAdvisory(t.db, repository, { title: 'B', affectedVersions: '1.0.* || 2.1.0-beta1' })
    expect(await affected()).toEqual([
      '2.1.0-beta.1: B, 2.1.0',
      '2.0.0: A, 2.0.3',
      '1.0.5: B, 1.1.0',
      '1.0.0: A+B, 1.1.0',
    ])
    await markDeleted(t.db, repository, { version: '2.0.3' })
    expect(await affected()).toContain('2.0.0: A, 2.1.0')
  })

  it('have no fix while every later release is affected, and no advisory of versions that nobody published', async () => {
    const { repository, affected, fixes } = await aPackage(['1.0.0', '1.1.0'])
    await anAdvisory(t.db, repository, { title: 'A', affectedVersions: '*' })
    await anAdvisory(t.db, repository, { title: 'B', affectedVersions: '>=9' })
    expect(await affected()).toEqual(['1.1.0: A, null', '1.0.0: A, null'])
    expect(await fixes()).toEqual([[]])
  })
})
