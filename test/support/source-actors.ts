import type { FastifyBaseLogger } from 'fastify'
import { operator, type Principal } from '../../src/domain/principal.ts'
import type { Repository } from '../../src/groups/repositories.ts'
import { enqueue, type Job } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { openOutbound } from '../../src/outbound/outbound.ts'
import { readDueSourcesJob, readSourceJob } from '../../src/sources/read-source.ts'
import { listAllRefs } from '../../src/sources/source-refs.ts'
import { addSource, findSource, type NewSource, queueSource } from '../../src/sources/sources.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aRepository } from './actors.ts'
import type { TestApp } from './app.ts'
import { expand } from './registry-actors.ts'

/** A source of a public repository. */
export async function aSource(
  t: TestApp,
  wanted: NewSource,
  { place, by = operator }: { place?: Repository; by?: Principal } = {},
) {
  const repository = place ?? (await aRepository(t.db, { visibility: 'public' }))
  const outbound = openOutbound(t.config)
  const { id, ...added } = await addSource(
    { config: t.config, db: t.db, outbound },
    { repositoryId: repository.id, by },
    wanted,
  ).finally(() => void outbound.close())
  const read = () => readSources(t)
  return {
    id,
    ...added,
    repository,
    /** Reads the source, as the server does when its time has come. */
    read,
    /** Queues the source, and reads it. */
    async readAgain() {
      await queueSource(t.db, { id, repositoryId: null })
      await read()
    },
    find: () => findSource(t.db, id),
    /** The state, version and reason of each tag and branch, by name. */
    async refs() {
      const refs = await listAllRefs(t.db, id)
      return Object.fromEntries(refs.map((ref) => [ref.name, ref]))
    },
    /** The entries of a package: releases, or development versions. */
    async entries(name: string, { isDev = false } = {}) {
      const url = `/${repository.path}/-/packages/p2/${name}${isDev ? '~dev' : ''}.json`
      const response = await t.app.inject(url)
      return response.statusCode === 200 ? expand(response.body, name) : []
    },
  }
}

/** Runs the jobs that read sources, until none is left. */
export async function readSources(t: TestApp, log: FastifyBaseLogger = openLog('silent')): Promise<void> {
  await enqueue(t.db, readDueSourcesJob, null)
  await runDueJobs({ config: t.config, db: t.db }, [readDueSourcesJob, readSourceJob as Job], log)
}
