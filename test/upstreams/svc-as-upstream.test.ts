import { describe, expect, it, vi } from 'vitest'
import { aCaller, type Caller } from '../support/api-actors.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { expand } from '../support/registry-actors.ts'
import { followUpstreams, upstreamsHere, useUpstream } from '../support/upstream.ts'
import { ageDocuments, ageFeeds, ageRoots, upstreamRows } from '../support/upstream-rows.ts'

const t = useListeningApp(await freePort(), upstreamsHere)
const source = useUpstream()
/** A check may run in the background. */
const patience = { timeout: 60_000 }

/** A public repository, and a repository whose only upstream is the public one. */
async function aChain() {
  const middle = await aCaller(t, { visibility: 'public' })
  const downstream = await aCaller(t)
  return { middle, downstream }
}

const addUpstream = ({ call }: Caller, url: string) =>
  call('POST', '/upstreams', { url, name: 'source' }).then(({ statusCode }) => expect(statusCode).toBe(201))
const registryOf = ({ path }: Caller) => `${t.config.baseUrl}${path}`.replace(/\/$/, '')
const rootOf = async ({ ask }: Caller) => (await ask('packages.json')).json()

async function versionsIn({ ask }: Caller, name: string): Promise<unknown> {
  const { statusCode, body } = await ask(`p2/${name}.json`)
  return statusCode === 200 ? expand(body, name).map(({ version }) => version) : statusCode
}

/** Follows the feeds. Every document and packages.json were read an hour ago, and no feed is followed since then. */
async function anHourPasses(): Promise<void> {
  await ageDocuments(t.db)
  await ageRoots(t.db, 1)
  await ageFeeds(t.db, 2)
  await followUpstreams(t)
}

describe('a repository whose upstream is another repository of svc', () => {
  it('sees new versions that its upstream gets from an upstream', async () => {
    const { middle, downstream } = await aChain()
    source.offer('chain/lib', ['1.0.0'])
    await addUpstream(middle, source.url)
    await addUpstream(downstream, registryOf(middle))
    await anHourPasses()
    expect(await versionsIn(downstream, 'chain/lib')).toEqual(['1.0.0'])
    source.offer('chain/lib', ['1.1.0', '1.0.0'])
    await anHourPasses()
    await vi.waitFor(
      async () => expect(await versionsIn(middle, 'chain/lib')).toEqual(['1.1.0', '1.0.0']),
      patience,
    )
    await anHourPasses()
    const both = ['1.1.0', '1.0.0']
    await vi.waitFor(async () => expect(await versionsIn(downstream, 'chain/lib')).toEqual(both), patience)
  })

  it('follows the changes only while its upstream has no upstreams, and reads packages.json again for that', async () => {
    const { middle, downstream } = await aChain()
    await middle.push('1.0.0', { name: 'chain/own' })
    await addUpstream(downstream, registryOf(middle))
    expect(await versionsIn(downstream, 'chain/own')).toEqual(['1.0.0'])
    const follows = async () => (await upstreamRows(t.db, downstream.repository))[0]?.isFollowed
    // A feed that was not read in time is read at the next run.
    const expectFollowed = (expected: boolean) =>
      vi.waitFor(async () => {
        await anHourPasses()
        expect(await follows()).toBe(expected)
      }, patience)
    await expectFollowed(true)

    await addUpstream(middle, source.url)
    const root = await rootOf(middle)
    expect([root['metadata-changes-url'], root['available-packages']]).toEqual([undefined, undefined])
    await expectFollowed(false)

    expect((await middle.call('DELETE', '/upstreams/source')).statusCode).toBe(204)
    expect(await rootOf(middle)).toMatchObject({
      'metadata-changes-url': `${registryOf(middle)}/metadata/changes.json`,
    })
  })
})
