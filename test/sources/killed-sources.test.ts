import { readdirSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { removeAbandoned } from '../../src/sources/git.ts'
import { newRef, saveRefs } from '../../src/sources/source-refs.ts'
import { queuePushed } from '../../src/sources/sources.ts'
import { useApp } from '../support/app.ts'
import { listProcesses, packageFiles, sourcesHere, useGitServer } from '../support/git-server.ts'
import { setTurns } from '../support/job-rows.ts'
import { openTransaction, untilWaiting } from '../support/locks.ts'
import { databaseUrl, startServer } from '../support/program.ts'
import { aSource, readSources } from '../support/source-actors.ts'

const t = useApp(sourcesHere)
const server = useGitServer()
const patient = { timeout: 60_000 }

/** Starts the program on the database of the test, and kills it when it is where `reached` says. */
async function killed(reached: () => Promise<unknown>): Promise<void> {
  const svc = await startServer({
    ...sourcesHere,
    DATABASE_URL: databaseUrl(t.connection),
    DATA_DIR: t.config.dataDir,
    BASE_URL: t.config.baseUrl,
    LOG_LEVEL: 'silent',
  })
  try {
    await reached()
  } finally {
    svc.process.kill('SIGKILL')
    await svc.outcome
  }
}

describe('a server that is killed while it reads a source', () => {
  it('leaves no process, and the next reading loses nothing', async () => {
    const git = server.repository('killed')
    git.commit(packageFiles('acme/killed'))
    const versions = Array.from({ length: 20 }, (_, i) => `1.${i}.0`)
    for (const version of versions) git.git('tag', version)
    const source = await aSource(t, { url: git.url, secret: 'the-token' })
    const folders = () => readdirSync(join(t.config.dataDir, 'git'))
    const published = async () => (await source.find())?.counts['published'] ?? 0

    // While it fetches from a server that does not respond any more.
    let posts = 0
    server.answer = ({ method }) => method === 'POST' && ++posts === 2
    await killed(() => expect.poll(() => posts, patient).toBe(2))
    await expect.poll(() => listProcesses(git.url), patient).toEqual([])
    expect(folders()).toHaveLength(1)

    // While it publishes. It waits to store that it has published one of the versions.
    server.answer = () => false
    const { tx, rollback } = await openTransaction(t.db)
    await saveRefs(tx, source.id, [{ ...newRef, kind: 'tag', name: '1.10.0' }])
    await setTurns(t.db, 0)
    await killed(() => untilWaiting(t.db, 1, 'insert into source_ref'))
    await rollback()
    await expect.poll(() => listProcesses(git.url), patient).toEqual([])
    // PostgreSQL may still run the statement that the killed process has sent.
    expect([10, 11]).toContain(await published())

    await setTurns(t.db, 0)
    await source.read()
    expect(await source.find()).toMatchObject({ failure: null, counts: { published: 21 } })
    const entries = await source.entries('acme/killed')
    expect(entries.map(({ version }) => version)).toEqual(versions.toReversed())

    const before = new Date(Date.now() - 11 * 60_000)
    for (const name of folders()) utimesSync(join(t.config.dataDir, 'git', name), before, before)
    await removeAbandoned(t.config)
    expect(folders()).toEqual([])
  })
})

describe('processes that race for a source', () => {
  it('read it one after another', async () => {
    const git = server.repository('race')
    git.commit(packageFiles('acme/race'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url })
    server.requests.length = 0
    let release = () => {}
    server.answer = (_, response) => {
      if (server.requests.length > 1) return false
      release = () => void response.writeHead(500).end()
      return true
    }
    let ended = 0
    const processes = Array.from({ length: 6 }, () =>
      readSources(t).then(() => {
        ended += 1
      }),
    )
    await expect.poll(() => [ended, server.requests.length], patient).toEqual([5, 1])
    await queuePushed(t.db, source.id)
    await readSources(t)
    expect(server.requests).toEqual(['GET /race.git/info/refs'])
    release()
    await Promise.all(processes)
    expect(await source.find()).toMatchObject({ failure: null, counts: { published: 2 } })
  })
})
