import { createHmac, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { keyFileOf } from '../../src/database/secret-key.ts'
import { operator } from '../../src/domain/principal.ts'
import { deleteRepository } from '../../src/groups/group-lifecycle.ts'
import { readSourceJob } from '../../src/sources/read-source.ts'
import { removeSource, replaceHookSecret } from '../../src/sources/sources.ts'
import { useApp } from '../support/app.ts'
import { packageFiles, sourcesHere, useGitServer } from '../support/git-server.ts'
import { beginJobs, listStoredJobs, setTurns } from '../support/job-rows.ts'
import { freePort } from '../support/program.ts'
import { aSource } from '../support/source-actors.ts'

const port = await freePort()
const t = useApp(sourcesHere)
const server = useGitServer()
const maxBytes = 25 * 1024 * 1024

// Fastify's own listen would start the jobs, and then no reading waits.
beforeAll(async () => {
  await once(t.app.server.listen(port, '127.0.0.1'), 'listening')
})
afterAll(async () => {
  t.app.server.closeAllConnections()
  await once(t.app.server.close(), 'close')
})

let source: Awaited<ReturnType<typeof aSource>>
beforeAll(async () => {
  const git = server.repository('lib')
  git.commit(packageFiles('acme/lib'), { tag: '1.0.0' })
  source = await aSource(t, { url: git.url })
  await source.read()
})

/** The bodies of a push, as each server sends them. */
const bodies = {
  GitHub: '{"ref":"refs/tags/1.1.0","before":"0000000000000000000000000000000000000000","created":true}',
  GitLab: '{"object_kind":"tag_push","ref":"refs/tags/1.1.0","project":{"path_with_namespace":"acme/lib"}}',
  'GitLab with a signing token': '{"object_kind":"push","ref":"refs/heads/main"}',
  Gitea: '{\n  "ref": "refs/tags/1.1.0",\n  "repository": {\n    "full_name": "acme/lib"\n  }\n}',
  Forgejo: '{\n  "ref": "refs/tags/1.1.0",\n  "sha": "ü"\n}',
  Bitbucket:
    '{"push":{"changes":[{"new":{"type":"tag","name":"1.1.0"}}]},"repository":{"type":"repository"}}',
}

const hmac = (secret: string, body: string | Buffer, algorithm = 'sha256') =>
  createHmac(algorithm, secret).update(body).digest('hex')

/** What each server adds to a body. */
const signed: Record<keyof typeof bodies, (secret: string, body: string | Buffer) => Record<string, string>> =
  {
    GitHub: (secret, body) => ({
      'x-github-event': 'push',
      'x-hub-signature': `sha1=${hmac(secret, body, 'sha1')}`,
      'x-hub-signature-256': `sha256=${hmac(secret, body)}`,
    }),
    GitLab: (secret) => ({ 'x-gitlab-event': 'Tag Push Hook', 'x-gitlab-token': secret }),
    'GitLab with a signing token': (secret, body) => ({
      'x-gitlab-event': 'Push Hook',
      'webhook-id': '58d7a6b4-0c2c-4d2f-9a51-0e9f3c7b2b11',
      'webhook-timestamp': '1795000000',
      'webhook-signature': `v1,${createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64'))
        .update('58d7a6b4-0c2c-4d2f-9a51-0e9f3c7b2b11.1795000000.')
        .update(body)
        .digest('base64')}`,
    }),
    Gitea: (secret, body) => ({ 'x-gitea-event': 'push', 'x-gitea-signature': hmac(secret, body) }),
    Forgejo: (secret, body) => ({ 'x-forgejo-event': 'push', 'x-forgejo-signature': hmac(secret, body) }),
    Bitbucket: (secret, body) => ({
      'x-event-key': 'repo:push',
      'x-hub-signature': `sha256=${hmac(secret, body)}`,
    }),
  }
const forges = Object.keys(bodies) as (keyof typeof bodies)[]

/** Sends a hook from its own network, so that the failures of a test limit no other. */
function send(
  headers: Record<string, string>,
  body: string | Buffer = bodies.GitHub,
  { id = source.id, ip = '192.0.2.1' }: { id?: string; ip?: string } = {},
) {
  const type = { 'content-type': 'application/json' }
  const url = `/hooks/${id}`
  return t.app.inject({
    method: 'POST',
    url,
    headers: { ...type, ...headers },
    payload: body,
    remoteAddress: ip,
  })
}

const queued = async () =>
  (await listStoredJobs(t.db, readSourceJob.name)).filter(({ hasFailed }) => !hasFailed)

describe('POST /hooks/<source>', () => {
  it.each(forges)('queues a reading for a hook of %s', async (forge) => {
    const body = bodies[forge]
    const response = await send(signed[forge](source.hookSecret, body), body)
    expect([response.statusCode, response.body]).toEqual([202, ''])
    expect(await queued()).toMatchObject([{ key: source.id, data: { sourceId: source.id } }])
    await source.read()
  })

  it.each(forges)('refuses a hook of %s with another secret, or for another body', async (forge) => {
    const body = bodies[forge]
    const before = signed[forge](source.hookSecret, body)
    expect((await send(signed[forge]('another', body), body)).statusCode).toBe(401)
    // The token of GitLab is for any body.
    if (forge !== 'GitLab') expect((await send(before, `${body} `)).statusCode).toBe(401)
    expect(await queued()).toEqual([])
  })

  it('lets a pushed tag appear, whatever its body says', async () => {
    const git = server.repository('pushed')
    git.commit(packageFiles('acme/pushed'), { tag: '1.0.0' })
    const pushed = await aSource(t, { url: git.url, branches: '' })
    await pushed.read()
    git.commit({ 'src/A.php': '<?php\n' }, { tag: '1.1.0' })
    const body = '{"ref":"refs/tags/9.9.9","repository":{"clone_url":"https://evil.example.com/"}}'
    const { statusCode } = await send(signed.GitHub(pushed.hookSecret, body), body, { id: pushed.id })
    expect(statusCode).toBe(202)
    await pushed.read()
    const versions = (await pushed.entries('acme/pushed')).map(({ version }) => version)
    expect(versions).toEqual(['1.1.0', '1.0.0'])
  })

  it('does not judge again what was refused', async () => {
    const git = server.repository('refused')
    git.commit({ 'composer.json': '{' }, { tag: '1.0.0' })
    const refused = await aSource(t, { url: git.url, branches: '' })
    await refused.read()
    const before = (await refused.refs())['1.0.0']
    expect(before).toMatchObject({ state: 'refused' })
    await send(signed.GitLab(refused.hookSecret, ''), '', { id: refused.id })
    expect((await refused.refs())['1.0.0']).toEqual(before)
    await refused.read()
  })

  it('queues one reading for many hooks, and another one while a reading runs', async () => {
    const headers = signed.GitLab(source.hookSecret, '')
    for (let i = 0; i < 5; i += 1) expect((await send(headers)).statusCode).toBe(202)
    expect(await queued()).toHaveLength(1)
    await beginJobs(t.db, source.id)
    for (let i = 0; i < 5; i += 1) await send(headers)
    expect((await queued()).map(({ isRunning }) => isRunning)).toEqual([true, false])
    await setTurns(t.db, 0)
    await source.read()
  })

  it('accepts one of several standard signatures, and none without its id and time', async () => {
    const right = signed['GitLab with a signing token'](source.hookSecret, bodies.GitHub)
    const both = { ...right, 'webhook-signature': `v1,${'A'.repeat(43)}= ${right['webhook-signature']}` }
    expect((await send(both)).statusCode).toBe(202)
    await source.read()
    for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
      const { [name]: _, ...others } = right
      expect((await send(others)).statusCode).toBe(401)
    }
    expect((await send({ ...right, 'webhook-id': 'another' })).statusCode).toBe(401)
  })

  it('accepts a secret that the Git server has made, and no former one', async () => {
    const git = server.repository('rotated')
    git.commit(packageFiles('acme/rotated'))
    const { id, hookSecret } = await aSource(t, { url: git.url })
    const made = `whsec_${randomBytes(32).toString('base64')}`
    const replace = (secret: string | null) =>
      replaceHookSecret(t, operator, { id, repositoryId: null, secret })
    expect(await replace(`${made}\n`)).toBe(made)
    const use = async (secret: string) =>
      (await send(signed['GitLab with a signing token'](secret, ''), '', { id })).statusCode
    expect([await use(hookSecret), await use(made)]).toEqual([401, 202])
    const next = (await replace(null)) as string
    expect([await use(made), await use(next)]).toEqual([401, 202])
    await expect(replace('too short')).rejects.toThrow('16 to 200 ASCII characters')
    await source.read()
  })

  it('accepts one right header beside wrong ones, and no header that is sent twice', async () => {
    const { hookSecret } = source
    const right = signed.GitHub(hookSecret, bodies.GitHub)
    expect((await send({ ...right, 'x-gitea-signature': 'f'.repeat(64) })).statusCode).toBe(202)
    await source.read()
    const twice = `sha256=${hmac(hookSecret, bodies.GitHub)}`
    const { statusCode } = await sendRaw({ 'x-hub-signature-256': [twice, twice] }, [bodies.GitHub])
    expect(statusCode).toBe(401)
    expect(await queued()).toEqual([])
  })

  it.each([
    ['no signature', {}],
    ['an empty signature', { 'x-hub-signature-256': '' }],
    ['a prefix only', { 'x-hub-signature-256': 'sha256=' }],
    ['a signature without its prefix', { 'x-hub-signature-256': hmac('x', bodies.GitHub) }],
    ['a signature with SHA-1', { 'x-hub-signature': `sha1=${hmac('x', bodies.GitHub, 'sha1')}` }],
    ['an empty token', { 'x-gitlab-token': '' }],
  ])('refuses %s', async (_, headers) => {
    expect((await send(headers, bodies.GitHub, { ip: '192.0.2.2' })).statusCode).toBe(401)
  })

  it('accepts binary bodies and any content type, with the hash of the raw bytes', async () => {
    const body = Buffer.concat([Buffer.from([0, 0xff, 0xfe]), randomBytes(100_000)])
    for (const type of ['application/x-www-form-urlencoded', 'application/octet-stream', 'nonsense', '']) {
      const headers = { ...signed.Forgejo(source.hookSecret, body), 'content-type': type }
      expect((await send(headers, body)).statusCode).toBe(202)
    }
    await source.read()
  })

  it('answers alike for a wrong signature and for a source that does not exist', async () => {
    const git = server.repository('removed')
    git.commit(packageFiles('acme/removed'))
    const removed = await aSource(t, { url: git.url })
    await removed.read()
    await removeSource(t.db, operator, { id: removed.id, repositoryId: null })
    const wrong = await send(signed.GitHub('another', bodies.GitHub))
    expect(wrong.json()).toEqual({
      errcode: 16,
      errmsg: 'not authorized',
      warning: 'There is no such source, or the secret of the hook is another one.',
    })
    expect(wrong.headers['www-authenticate']).toBe('Signature realm="hooks"')
    const orphan = await aSource(t, { url: git.url })
    await deleteRepository(t.db, operator, orphan.repository)
    const token = signed.GitLab(orphan.hookSecret, '')
    expect((await send(token, '', { id: orphan.id })).body).toBe(wrong.body)
    for (const id of [removed.id, '999999', '0', 'x', '-1', '1e3', '9'.repeat(40), '%00', '1%2F2']) {
      const response = await send(signed.GitHub(removed.hookSecret, bodies.GitHub), bodies.GitHub, { id })
      expect([id, response.statusCode, response.body]).toEqual([id, 401, wrong.body])
    }
  })

  it('refuses other methods', async () => {
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'] as const) {
      const response = await t.app.inject({ method, url: `/hooks/${source.id}` })
      expect([method, response.statusCode, response.headers.allow]).toEqual([method, 405, 'POST'])
    }
  })

  it('needs no session, and takes any Origin and cookie', async () => {
    const headers = {
      origin: 'https://evil.example.com',
      'sec-fetch-site': 'cross-site',
      cookie: 'svc_session=x',
    }
    const response = await send({ ...signed.GitLab(source.hookSecret, ''), ...headers })
    expect([response.statusCode, response.headers['set-cookie']]).toEqual([202, undefined])
    await source.read()
  })

  it('refuses more wrong hooks of one network than a limit, and still accepts right ones', async () => {
    const ip = '192.0.2.3'
    const wrong = () => send({ 'x-gitlab-token': 'wrong' }, '', { ip })
    const statuses = (await Promise.all(Array.from({ length: 121 }, wrong))).map(
      ({ statusCode }) => statusCode,
    )
    expect(statuses.filter((status) => status === 401)).toHaveLength(120)
    const blocked = await wrong()
    expect([blocked.statusCode, Number(blocked.headers['retry-after']) > 0]).toEqual([429, true])
    const right = await send(signed.GitLab(source.hookSecret, ''), '', { ip })
    expect(right.statusCode).toBe(202)
    await source.read()
  })
})

/** Sends a hook over a connection, in chunks without a length unless the headers have one. */
async function sendRaw(headers: Record<string, string | string[]>, chunks: Iterable<string | Buffer>) {
  const request = httpRequest({
    port,
    host: '127.0.0.1',
    method: 'POST',
    path: `/hooks/${source.id}`,
    headers,
  })
  request.on('error', () => {})
  const responded = once(request, 'response')
  let hasResponse = false
  void responded.then(() => {
    hasResponse = true
  })
  for (const chunk of chunks) {
    if (hasResponse) break
    if (!request.write(chunk)) await Promise.race([once(request, 'drain'), responded])
  }
  request.end()
  const [response] = await responded
  return { statusCode: response.statusCode as number, body: await text(response) }
}

describe('the body of a hook', () => {
  const chunk = Buffer.alloc(1024 * 1024, 7)
  function* chunksOf(bytes: number) {
    for (let sent = 0; sent < bytes; sent += chunk.length)
      yield chunk.subarray(0, Math.min(chunk.length, bytes - sent))
  }

  it('may have 25 MiB', async () => {
    const signature = `sha256=${hmac(source.hookSecret, Buffer.alloc(maxBytes, 7))}`
    const response = await sendRaw({ 'x-hub-signature-256': signature }, chunksOf(maxBytes))
    expect(response.statusCode).toBe(202)
    await source.read()
  })

  it('is refused when it is larger, with a length or without', async () => {
    const token = { 'x-gitlab-token': source.hookSecret }
    for (const headers of [token, { ...token, 'content-length': String(maxBytes + 1) }]) {
      const response = await sendRaw(headers, chunksOf(maxBytes + 1))
      expect([response.statusCode, response.body]).toEqual([
        413,
        `{"errcode":8,"errmsg":"the hook has more than ${maxBytes} bytes"}`,
      ])
    }
    expect(await queued()).toEqual([])
  })
})

describe('a hook of a source whose key the server has lost', () => {
  it('gets 503, and the log tells the operator what to do', async () => {
    await rm(keyFileOf(t.config))
    const response = await send(signed.GitLab(source.hookSecret, ''))
    expect([response.statusCode, response.json()]).toEqual([
      503,
      { errcode: 14, errmsg: 'temporarily unavailable' },
    ])
    expect(t.log()).toContain(
      `the server has lost the key of the secrets of the source ${source.id}: restore SECRET_KEY, or add the source again`,
    )
    expect(t.log()).not.toContain(source.hookSecret)
  })
})
