import { spawnSync } from 'node:child_process'
import { mkdir, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { type Listener, startListener } from './server.ts'

/** A file that nginx serves unchanged. */
export interface StaticFile {
  /** The URL path of the file, without a leading slash. */
  path: string
  bytes: Buffer
  lastModified: Date
}

/**
 * Parts of the nginx configuration. `http` is added to the block `http`. `server` replaces the location of the files.
 */
export interface NginxParts {
  http?: string
  server?: string
}

/** The location of the files. */
export const filesLocation = 'location / { gzip_static on; }'

/** With this part of the block `http`, nginx requires `nginxAuthorization` and checks it with a password file. */
export const checkPasswords = 'auth_basic bench; auth_basic_user_file passwords;'

/** The credentials of the password file, as an Authorization header. */
export const nginxAuthorization = `Basic ${Buffer.from('bench:yardstick').toString('base64')}`

/** The hash is of the kind that `htpasswd` writes unless told otherwise. */
const passwordFile = 'bench:$apr1$svcbench$P36ogOMF8ZSrFgwEcHAtP1\n'

/** Starts nginx with one worker process, because svc is one process too. Null when nginx is not installed. */
export async function startNginx(
  folder: string,
  files: readonly StaticFile[],
  port: number,
  parts: NginxParts = {},
): Promise<Listener | null> {
  if (spawnSync('nginx', ['-v']).error) return null
  for (const { path, bytes, lastModified } of files) {
    const file = join(folder, 'root', path)
    await mkdir(dirname(file), { recursive: true })
    for (const [name, content] of [[file, bytes] as const, [`${file}.gz`, gzipSync(bytes)] as const]) {
      await writeFile(name, content)
      await utimes(name, lastModified, lastModified)
    }
  }
  await mkdir(join(folder, 'root'), { recursive: true })
  await writeFile(join(folder, 'passwords'), passwordFile)
  const configuration = join(folder, 'nginx.conf')
  await writeFile(configuration, configurationOf(folder, port, parts))
  return startListener(['-c', configuration, '-p', folder], port, {
    command: 'nginx',
    log: join(folder, 'out.log'),
  })
}

function configurationOf(
  folder: string,
  port: number,
  { http = '', server = filesLocation }: NginxParts,
): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return `
    daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log crit;
    events { worker_connections 1024; }
    http {
      ${temporary.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
      types { application/json json; application/zip zip; }
      sendfile on; tcp_nopush on; open_file_cache max=1000; access_log ${folder}/access.log;
      keepalive_requests 1000000; ${http}
      server { listen 127.0.0.1:${port}; root ${folder}/root; ${server} }
    }`
}
