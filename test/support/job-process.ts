import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { readConfig } from '../../src/config.ts'
import { runJobs } from '../../src/jobs/run-jobs.ts'
import { openLog } from '../../src/web/server/log.ts'

/** A process that takes the job `long` and works on it until it is killed. It prints a line when it has started. */
const db = new pg.Pool({ connectionString: process.argv[2] })
const long = {
  name: 'long',
  async run() {
    process.stdout.write('begun\n')
    await sleep(60_000)
  },
}
runJobs({ config: readConfig({}), db }, [long], openLog('silent'), { pollEveryMilliseconds: 20 })
