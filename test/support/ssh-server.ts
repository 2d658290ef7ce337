import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { type GitRepository, makeRepository } from './git-server.ts'
import { freePort } from './program.ts'
import { untilTrue } from './until.ts'

/** A Git server over SSH: the sshd of Debian, with a key of its own. */
export interface SshServer {
  repository: (name: string) => GitRepository
  /** The private key that it accepts. */
  key: string
  /** The fingerprint of its own key. */
  fingerprint: string
  /** Starts it again with another key. */
  changeKey: () => Promise<void>
  stop: () => Promise<void>
}

/** Starts sshd on a free port. */
export async function startSshServer(): Promise<SshServer> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-sshd-'))
  const port = await freePort()
  const makeKey = (name: string) =>
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', join(folder, name)])
  makeKey('host')
  makeKey('client')
  // sshd needs this folder when root starts it.
  if (userInfo().uid === 0) mkdirSync('/run/sshd', { recursive: true })
  writeFileSync(join(folder, 'authorized_keys'), readFileSync(join(folder, 'client.pub')), { mode: 0o600 })
  const settings = [
    'ListenAddress=127.0.0.1',
    `Port=${port}`,
    `HostKey=${join(folder, 'host')}`,
    `AuthorizedKeysFile=${join(folder, 'authorized_keys')}`,
    'PidFile=none',
    'StrictModes=no',
    'UsePAM=no',
    'PermitRootLogin=prohibit-password',
    'PasswordAuthentication=no',
    'KbdInteractiveAuthentication=no',
  ]
  const start = async () => {
    const words = ['-D', '-e', '-f', '/dev/null', ...settings.flatMap((setting) => ['-o', setting])]
    const child = spawn('/usr/sbin/sshd', words, { stdio: 'ignore' })
    const ended = once(child, 'exit')
    await untilTrue(
      async () => {
        if (child.exitCode !== null) throw new Error('sshd has ended')
        return isListening(port)
      },
      () => 'sshd does not listen',
    )
    /** A server that has not ended yet would answer in the place of the next one. */
    const stop = async () => {
      child.kill()
      await ended
    }
    return { stop }
  }
  let running = await start()
  return {
    repository(name) {
      const { path, ...own } = makeRepository(folder, name)
      return { ...own, path, url: `ssh://${userInfo().username}@localhost:${port}${path}` }
    },
    key: readFileSync(join(folder, 'client'), 'utf8'),
    fingerprint:
      /SHA256:\S+/.exec(
        execFileSync('ssh-keygen', ['-lf', join(folder, 'host')], { encoding: 'utf8' }),
      )?.[0] ?? '',
    async changeKey() {
      await running.stop()
      for (const file of ['host', 'host.pub']) rmSync(join(folder, file))
      makeKey('host')
      running = await start()
    },
    async stop() {
      await running.stop()
      rmSync(folder, { recursive: true })
    },
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
