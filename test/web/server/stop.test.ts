import { spawn } from 'node:child_process'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { useDatabase } from '../../support/database.ts'
import { countStatements, openTransaction, takeAdvisoryLock } from '../../support/locks.ts'
import { databaseUrl, freePort, program, stopServer } from '../../support/program.ts'
import { useServers } from '../../support/servers.ts'

/** The response of a server that has begun with a request (RFC 9110 §10.1.1). */
const invitation = 'HTTP/1.1 100 Continue\r\n\r\n'

/** The request is incomplete until four more bytes arrive. */
const halfARequest = [
  'POST /login HTTP/1.1',
  'Host: x',
  'Content-Type: application/x-www-form-urlencoded',
  'Content-Length: 8',
  'Expect: 100-continue',
  '',
  'user',
].join('\r\n')

/** Sends half a request, and waits until the server has begun with it. */
async function begin(socket: Socket): Promise<void> {
  socket.write(halfARequest)
  const [sent] = (await once(socket, 'data')) as [Buffer]
  expect(sent.toString()).toBe(invitation)
}

describe('the stop of svc serve', () => {
  const database = useDatabase()
  const locked = useDatabase()
  const servers = useServers(database, afterAll)
  const { environment, start } = servers

  // These wait for 20 seconds together, instead of one after another.
  describe.concurrent('while the server waits', () => {
    it('ends a start that hangs, 20 s after a signal', async () => {
      const { tx, rollback } = await openTransaction(locked.db)
      await takeAdvisoryLock(tx, 7382001)
      const env = {
        PATH: process.env['PATH'],
        ...environment({ DATABASE_URL: databaseUrl(locked.connection) }),
      }
      const child = spawn(process.execPath, [program, 'serve'], { env, stdio: 'ignore' })
      // It tries to get the lock again and again.
      const trying = /pg_try_advisory_xact_lock|^rollback$/
      while ((await countStatements(locked.db, trying)) === 0) await sleep(50)
      child.kill('SIGTERM')
      expect(await once(child, 'close')).toEqual([1, null])
      await rollback()
    })

    it('ends requests that still run after 10 s, and exits with 0', async () => {
      const server = await start()
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
      await begin(socket)
      const { code, stderr } = await stopServer(server)
      expect(stderr).not.toContain('svc:')
      expect(code).toBe(0)
      expect(socket.bytesRead).toBe(invitation.length)
    })

    it('does not wait for a request with a response and a body that never ends, half a header, or a connection without a request', async () => {
      const server = await start()
      for (const sent of [
        'POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nuser',
        'GET / HTTP/1.1\r\nHo',
        '',
      ]) {
        const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
        socket.on('error', () => {})
        socket.write(sent)
      }
      await sleep(200)
      expect((await stopServer(server)).code).toBe(0)
    })
  })

  it('finishes a request that runs when it is asked to stop, on every IP of localhost', async () => {
    const server = await start()
    const sockets: { socket: Socket; response: () => string }[] = []
    for (const { address } of await lookup('localhost', { all: true })) {
      const socket = connect(Number(new URL(server.url).port), address)
      await once(socket, 'connect')
      let response = ''
      socket.on('data', (text: Buffer) => {
        response += text.toString()
      })
      await begin(socket)
      sockets.push({ socket, response: () => response })
    }
    server.process.kill('SIGTERM')
    await sleep(200)
    expect(server.process.exitCode).toBeNull()
    for (const { socket, response } of sockets) {
      socket.write('name')
      await once(socket, 'close')
      expect(response()).toMatch(/HTTP\/1\.1 403 /)
    }
    expect(sockets.length).toBeGreaterThan(0)
    expect((await server.outcome).code).toBe(0)
  })

  it('counts a Ctrl-C that npm forwards as one, and exits at once on a later one', async () => {
    const server = await start()
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    socket.on('error', () => {})
    await begin(socket)
    server.process.kill('SIGINT')
    server.process.kill('SIGINT')
    // A busy machine may let the server run only later.
    await expect.poll(server.logged).toContain('stopping')
    await sleep(1200)
    expect(server.process.exitCode).toBeNull()
    server.process.kill('SIGINT')
    expect((await server.outcome).code).toBe(1)
  })

  it('logs an error that nothing catches, and stops at once with 1', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-test-bug-'))
    const bug = join(folder, 'bug.cjs')
    await writeFile(bug, `process.on('SIGUSR2', () => Promise.reject(new Error('a bug')))`)
    const server = await start({ NODE_OPTIONS: `--require ${bug}`, LOG_LEVEL: 'fatal' })
    server.process.kill('SIGUSR2')
    const { code, stderr } = await server.outcome
    expect([code, JSON.parse(stderr)]).toEqual([
      1,
      expect.objectContaining({ level: 60, err: expect.objectContaining({ message: 'a bug' }) }),
    ])
    await rm(folder, { recursive: true })
  })

  it('is stopped by a signal to the npm start that runs it', async () => {
    const port = String(await freePort())
    const env = { PATH: process.env['PATH'], HOME: servers.dataDir, ...environment({ PORT: port }) }
    // Without this option, prestart would build again while other tests use the build.
    const npm = spawn('npm', ['start', '--ignore-scripts'], { env, stdio: ['ignore', 'pipe', 'ignore'] })
    let printed = ''
    npm.stdout.on('data', (text: Buffer) => {
      printed += text.toString()
    })
    while (!printed.includes('listens on')) await once(npm.stdout, 'data')
    npm.kill('SIGTERM')
    expect(await once(npm, 'close')).toEqual([0, null])
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow()
  })
})
