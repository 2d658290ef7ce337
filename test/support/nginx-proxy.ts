import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { untilTrue } from './until.ts'

/**
 * Starts nginx with the configuration of docs/nginx.md, without its certificate, in front of the svc processes on these
 * ports. Waits until a process responds through nginx. Returns a function that stops it.
 */
export async function startNginxProxy({
  port,
  processPorts,
  dataDir,
}: {
  port: number
  processPorts: readonly number[]
  dataDir: string
}): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-nginx-'))
  const text = await readFile(new URL('../../docs/nginx.md', import.meta.url), 'utf8')
  const [, documented = ''] = /^```nginx\n(.*?)^```/ms.exec(text) ?? []
  const servers = processPorts.map((processPort) => `server 127.0.0.1:${processPort} max_fails=0;`)
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const file = join(folder, 'nginx.conf')
  await writeFile(
    file,
    `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
    events { worker_connections 256; }
    http {
      access_log off; ${kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
      ${documented
        .replace('listen 443 ssl;', `listen 127.0.0.1:${port};`)
        .replace(/^ *ssl_.*\n/gm, '')
        .replace('server 127.0.0.1:3000 max_fails=0;', servers.join('\n'))
        .replace('/var/cache/nginx/svc', `${folder}/cache`)
        .replace('/var/lib/svc/archives/', `${dataDir}/archives/`)}
    }`,
  )
  const nginx = spawn('nginx', ['-c', file, '-p', folder], { stdio: 'inherit' })
  const exit = once(nginx, 'exit')
  const isUp = () =>
    fetch(`http://127.0.0.1:${port}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    )
  await untilTrue(isUp, () => 'nginx does not pass requests on')
  return async () => {
    nginx.kill()
    await exit
    await rm(folder, { recursive: true })
  }
}
