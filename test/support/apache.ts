import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from './program.ts'
import { untilTrue } from './until.ts'

/** The folder in which Debian has the modules of Apache. */
const modules = '/usr/lib/apache2/modules'
/** The configuration that Debian enables in each Apache, and the modules that the document names. */
const loaded = ['mpm_event', 'authn_core', 'authz_core', 'authz_user', 'proxy', 'proxy_http', 'auth_openidc']

/** Whether Apache has the module that signs people in. With CI=true a missing module is a failure, not a skip. */
export const hasApacheModule =
  process.env['CI'] === 'true' || existsSync(join(modules, 'mod_auth_openidc.so'))

/** A running Apache. */
export interface Apache {
  /** Returns what it has logged so far. */
  log: () => Promise<string>
  stop: () => Promise<void>
}

/** Starts Apache with a configuration and variables of the environment, and waits until it listens on the port. */
export async function startApache(
  port: number,
  configuration: string,
  environment: Environment,
): Promise<Apache> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-apache-'))
  const file = join(folder, 'apache.conf')
  const log = join(folder, 'error.log')
  await writeFile(
    file,
    `${loaded.map((name) => `LoadModule ${name}_module ${modules}/mod_${name}.so`).join('\n')}
    Listen 127.0.0.1:${port}
    ServerName localhost
    ServerRoot ${folder}
    DefaultRuntimeDir ${folder}
    PidFile ${folder}/apache.pid
    ErrorLog ${log}
    User www-data
    Group www-data
    StartServers 1
    ${configuration}`,
  )
  const env = { PATH: process.env['PATH'], ...environment }
  const apache = spawn('/usr/sbin/apache2', ['-D', 'FOREGROUND', '-f', file], { env, stdio: 'inherit' })
  const exit = once(apache, 'exit')
  const stop = async () => {
    apache.kill()
    await exit
    await rm(folder, { recursive: true })
  }
  const isUp = () =>
    fetch(`http://127.0.0.1:${port}/`, { redirect: 'manual' }).then(
      () => true,
      () => false,
    )
  await untilTrue(
    async () => apache.exitCode !== null || (await isUp()),
    () => 'Apache does not listen',
  )
  if (apache.exitCode !== null) {
    const text = await readFile(log, 'utf8').catch(() => 'the configuration is wrong')
    await stop()
    throw new Error(`Apache ended: ${text}`)
  }
  return { log: () => readFile(log, 'utf8'), stop }
}
