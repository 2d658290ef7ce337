import { join } from 'node:path'
import { startNginxProxy } from '../test/support/nginx-proxy.ts'
import { databaseUrl, freePort } from '../test/support/program.ts'
import { aRemoteUser } from '../test/support/remote-user.ts'
import { countDuring, startProcesses } from '../test/support/rolling.ts'
import type { Server } from './server.ts'
import { figure, table } from './table.ts'

/** Restarts four processes behind nginx, one after another, several times. Counts the failed requests. */
export async function measureRolling(server: Server, folder: string, rounds: number): Promise<string> {
  const port = await freePort()
  const proxy = `http://127.0.0.1:${port}`
  const dataDir = join(folder, 'data')
  const processes = await startProcesses(4, {
    DATABASE_URL: databaseUrl(server.connection),
    DATA_DIR: dataDir,
    BASE_URL: proxy,
    TRUST_PROXY: '127.0.0.1',
    LOG_LEVEL: 'warn',
  })
  const stopNginx = await startNginxProxy({ port, processPorts: processes.ports, dataDir })
  try {
    const rows: string[][] = []
    for (const connections of [8, 32]) {
      // Each load has its own repository: a repeated upload would return 200.
      const user = await aRemoteUser(server.db)
      await user.push(proxy, '1.0.0')
      const { requests, failures, seconds, slowestMs } = await countDuring(
        proxy,
        user,
        { connections, pauseMs: 0 },
        async () => {
          for (let i = 0; i < rounds; i += 1) await processes.restartAll()
        },
      )
      for (const failure of new Set(failures)) process.stderr.write(`${failure}\n`)
      const numbers = [4 * rounds, requests, failures.length, seconds, slowestMs]
      rows.push([
        `${connections} connections`,
        ...numbers.map((number) => (number === 0 ? '0' : figure(number))),
      ])
    }
    return table(['rolling restart', 'restarts', 'requests', 'failed', 'seconds', 'slowest ms'], rows)
  } finally {
    await stopNginx()
    await processes.stop()
  }
}
