import Fastify from 'fastify'
import pg from 'pg'
import { hashSecret, makeSecret } from '../src/domain/secrets.ts'

/**
 * The baseline: Fastify, the same hashing, and one prepared statement for each request. For tokens, the statement uses a
 * plain table with two unique indexes. The baseline authenticates no client, checks no grant and keeps no response for a
 * retry. For pulls, the statement finds a token and a file by their indexes. The bytes of the file are in memory.
 */
const db = new pg.Pool({ ...(JSON.parse(process.env['DATABASE'] ?? '') as pg.PoolConfig), max: 20 })
await db.query(
  `create table if not exists bare_pair (
     access_hash  bytea not null unique,
     refresh_hash bytea not null unique,
     account_id   bigint not null default 1,
     scopes       text[] not null default '{account-profile:r}',
     created_at   timestamptz not null default now(),
     expires_at   timestamptz not null default now() + interval '8 hours',
     revoked_at   timestamptz
   )`,
)

const app = Fastify()
app.addContentTypeParser(
  'application/x-www-form-urlencoded',
  { parseAs: 'string' },
  async (_request: unknown, body: string) => Object.fromEntries(new URLSearchParams(body)),
)

const exchange = `insert into bare_pair (access_hash, refresh_hash) select $1, $2 where $3::bytea is not null`
const refresh = `update bare_pair set access_hash = $1, refresh_hash = $2, created_at = now(),
                        expires_at = now() + interval '8 hours'
                  where refresh_hash = $3 and revoked_at is null`

app.post<{ Body: { code?: string; refresh_token?: string } }>('/oauth2/token', async (request) => {
  hashClient(request.headers.authorization)
  const { code, refresh_token: refreshToken } = request.body
  const pair = { access_token: makeSecret('access'), refresh_token: makeSecret('refresh') }
  const { rowCount } = await db.query({
    name: refreshToken === undefined ? 'exchange' : 'refresh',
    text: refreshToken === undefined ? exchange : refresh,
    values: [
      hashSecret(pair.access_token),
      hashSecret(pair.refresh_token),
      hashSecret(refreshToken ?? code ?? ''),
    ],
  })
  if (rowCount !== 1) throw new Error('there is no such token')
  return { ...pair, token_type: 'bearer', expires_in: 28_800, scope: 'account-profile:r' }
})

app.post<{ Body: { token: string } }>('/oauth2/revoke', async (request) => {
  hashClient(request.headers.authorization)
  await db.query({
    name: 'revoke',
    text: 'update bare_pair set revoked_at = now() where access_hash = $1',
    values: [hashSecret(request.body.token)],
  })
  return {}
})

app.post<{ Body: { token: string } }>('/oauth2/introspect', async (request) => {
  hashClient(request.headers.authorization)
  return { active: true, ...(await find(request.body.token)) }
})

app.get('/api/user', async (request) => find(request.headers.authorization?.slice('Bearer '.length) ?? ''))

async function find(token: string): Promise<object> {
  const { rows } = await db.query<object>({
    name: 'find',
    text: `select account_id, scopes, created_at, expires_at
             from bare_pair where access_hash = $1 and expires_at > now() and revoked_at is null`,
    values: [hashSecret(token)],
  })
  if (!rows[0]) throw new Error('there is no such token')
  return rows[0]
}

await db.query(
  `create table if not exists bare_token (token_hash bytea primary key, expires_at timestamptz not null);
   create table if not exists bare_file (path text primary key, last_modified timestamptz not null)`,
)
const files = new Map<string, { bytes: Buffer; encoding: string | undefined }>()
app.addContentTypeParser(
  'application/octet-stream',
  { parseAs: 'buffer', bodyLimit: 8 * 1024 * 1024 },
  async (_request: unknown, body: Buffer) => body,
)

app.put<{ Params: { '*': string }; Body: Buffer }>('/files/*', async (request) => {
  const { authorization, 'last-modified': lastModified, 'content-encoding': encoding } = request.headers
  const path = request.params['*']
  files.set(path, { bytes: request.body, encoding })
  await db.query(
    `insert into bare_token values ($1, now() + interval '1 day') on conflict (token_hash) do nothing`,
    [hashSecret(passwordOf(authorization))],
  )
  await db.query(`insert into bare_file values ($1, $2) on conflict (path) do nothing`, [path, lastModified])
  return {}
})

app.get<{ Params: { '*': string } }>('/files/*', async (request, reply) => {
  const path = request.params['*']
  const { rows } = await db.query<{ lastModified: Date }>({
    name: 'find-file',
    text: `select f.last_modified as "lastModified" from bare_token t, bare_file f
            where t.token_hash = $1 and t.expires_at > now() and f.path = $2`,
    values: [hashSecret(passwordOf(request.headers.authorization)), path],
  })
  const file = files.get(path)
  if (!rows[0] || !file) return reply.code(404).send()
  const lastModified = rows[0].lastModified.toUTCString()
  reply.header('last-modified', lastModified)
  if (request.headers['if-modified-since'] === lastModified) return reply.code(304).send()
  if (file.encoding !== undefined) reply.header('content-encoding', file.encoding)
  return reply.header('content-type', 'application/json').send(file.bytes)
})

function passwordOf(authorization = ''): string {
  return Buffer.from(authorization.slice('Basic '.length), 'base64').toString().split(':')[1] ?? ''
}

function hashClient(authorization = ''): void {
  hashSecret(passwordOf(authorization))
}

app.get('/healthz', async () => ({}))
process.once('SIGTERM', () => void app.close().then(() => db.end()))
await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) })
