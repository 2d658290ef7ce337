import { once } from 'node:events'
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../../src/config.ts'
import { openUpstreamClient, type UpstreamRights } from '../../../src/upstreams/client/fetch.ts'
import { ClosedClientError } from '../../../src/upstreams/client/upstream-error.ts'
import { buildApp } from '../../../src/web/server/app.ts'
import { openLog } from '../../../src/web/server/log.ts'
import { useApp } from '../../support/app.ts'
import { trusted, upstreamsHere, useUpstream } from '../../support/upstream.ts'

const t = useApp(upstreamsHere)
const first = useUpstream()
const second = useUpstream()
const quickly = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-test-auth-'))
})
afterAll(() => rm(folder, { recursive: true }))

const asText = async (bytes: Buffer) => bytes.toString()

async function get(
  url: string,
  { auth, ...environment }: Record<string, unknown> = {},
  rights: Partial<UpstreamRights> = {},
) {
  const file = join(folder, 'auth.json')
  if (auth !== undefined) await writeFile(file, JSON.stringify(auth))
  const config = readConfig({
    ...upstreamsHere,
    ...(auth !== undefined && { UPSTREAM_AUTH_FILE: file }),
    ...(environment as Record<string, string>),
  })
  const client = openUpstreamClient(config)
  try {
    return await client.for({ ...trusted(url), ...rights }).fetchDocument(url, asText)
  } finally {
    await client.close()
  }
}

describe('the credentials of UPSTREAM_AUTH_FILE', () => {
  it('are sent to their own host', async () => {
    const auth = { 'http-basic': { [first.host]: { username: 'ann', password: 'secret' } } }
    await get(`${first.url}/packages.json`, { auth })
    expect(first.lastHeaders.authorization).toBe(`Basic ${Buffer.from('ann:secret').toString('base64')}`)
    await get(`${first.url}/packages.json`, { auth: { bearer: { [first.host]: 'abc' } } })
    expect(first.lastHeaders.authorization).toBe('Bearer abc')
    await get(`${first.url}/packages.json`, { auth: { 'github-oauth': { [first.host]: 'ghp' } } })
    expect(first.lastHeaders.authorization).toBe('token ghp')
    await get(`${first.url}/packages.json`, { auth: { 'gitlab-oauth': { [first.host]: 'glo' } } })
    expect(first.lastHeaders.authorization).toBe('Bearer glo')
    await get(`${first.url}/packages.json`, { auth: { 'gitlab-token': { [first.host]: 'glpat' } } })
    expect(first.lastHeaders['private-token']).toBe('glpat')
    const deployToken = { username: 'ci', token: 'gldt' }
    await get(`${first.url}/packages.json`, { auth: { 'gitlab-token': { [first.host]: deployToken } } })
    expect(first.lastHeaders.authorization).toBe(`Basic ${Buffer.from('ci:gldt').toString('base64')}`)
  })

  it('do not follow a redirect to another host', async () => {
    first.fail('/moved.json', (_, response) =>
      response.writeHead(302, { location: `${second.url}/packages.json` }).end(),
    )
    const auth = { bearer: { [first.host]: 'abc' } }
    await expect(get(`${first.url}/moved.json`, { auth })).resolves.toMatchObject({ kind: 'found' })
    expect(first.lastHeaders.authorization).toBe('Bearer abc')
    expect(second.lastHeaders.authorization).toBeUndefined()
    await get(`${first.url}/moved.json`, { auth: { 'gitlab-token': { [first.host]: 'glpat' } } })
    expect(second.lastHeaders).not.toHaveProperty('private-token')
  })

  it('are not sent for another upstream, unless the operator names the host for it', async () => {
    const auth = { bearer: { [second.host]: 'abc' } }
    const ofFirst = { url: first.url }
    await get(`${second.url}/packages.json`, { auth }, ofFirst)
    expect(second.lastHeaders.authorization).toBeUndefined()
    await get(`${second.url}/packages.json`, { auth }, { ...ofFirst, credentialHosts: [second.host] })
    expect(second.lastHeaders.authorization).toBe('Bearer abc')
  })

  it('are not sent over http for an upstream with an https URL', async () => {
    const auth = { bearer: { [first.host]: 'abc' } }
    await get(`${first.url}/packages.json`, { auth }, { url: `https://${first.host}` })
    expect(first.lastHeaders.authorization).toBeUndefined()
  })

  it('are refused as a whole, without a secret in the message, when the file is wrong', async () => {
    const wrong = get(first.url, { auth: { 'http-basic': { 'a.example': 'p4ssw0rd' } } })
    await expect(wrong).rejects.toThrow(/http-basic\.a\.example/)
    await expect(wrong).rejects.not.toThrow(/p4ssw0rd/)
    await expect(get(first.url, { UPSTREAM_AUTH_FILE: join(folder, 'none.json') })).rejects.toThrow('ENOENT')
  })
})

describe('kinds of credentials that svc does not use', () => {
  const unused = {
    'custom-headers': { 'a.example': ['X-Key: p4ssw0rd'] },
    'bitbucket-oauth': { 'bitbucket.org': { 'consumer-key': 'p4ssw0rd', 'consumer-secret': 'p4ssw0rd' } },
    'client-certificate': { 'a.example': { local_cert: '/p4ssw0rd.pem' } },
    'forgejo-token': { 'a.example': { username: 'ann', token: 'p4ssw0rd' } },
    'a\u001b[31m': { 'a.example': 'p4ssw0rd' },
  }

  it('are named in one warning of the server, without their values', async () => {
    const file = join(folder, 'unused.json')
    // Composer writes empty objects for kinds without credentials.
    const used = { bearer: { 'a.example': 'p4ssw0rd' }, 'gitlab-domains': [], 'github-oauth': {} }
    await writeFile(file, JSON.stringify({ ...unused, ...used }))
    const lines: string[] = []
    const stream = new PassThrough().on('data', (chunk: Buffer) => lines.push(chunk.toString()))
    const { upstreams } = readConfig({ ...upstreamsHere, UPSTREAM_AUTH_FILE: file })
    const app = await buildApp({ config: { ...t.config, upstreams }, db: t.db }, openLog('info', stream))
    await app.close()
    const warnings = lines.filter((line) => 'kinds' in JSON.parse(line))
    expect(warnings.map((line) => JSON.parse(line))).toMatchObject([
      {
        kinds: ['custom-headers', 'bitbucket-oauth', 'client-certificate', 'forgejo-token', 'a'],
        level: 40,
        msg: 'UPSTREAM_AUTH_FILE contains kinds of credentials that svc does not use',
      },
    ])
    expect(lines.join('')).not.toContain('p4ssw0rd')
  })

  it('are named again when the file has changed', async () => {
    const file = join(folder, 'unused.json')
    await writeFile(file, '{}')
    const warnings: string[][] = []
    const config = readConfig({ ...upstreamsHere, UPSTREAM_AUTH_FILE: file })
    const client = openUpstreamClient(config, { onUnusedKinds: (kinds) => warnings.push(kinds) })
    try {
      await writeFile(file, JSON.stringify({ 'forgejo-token': unused['forgejo-token'] }))
      for (let i = 0; i < 2; i += 1)
        await client.for(trusted(first.url)).fetchDocument(`${first.url}/packages.json`, asText)
      expect(warnings).toEqual([['forgejo-token']])
    } finally {
      await client.close()
    }
  })
})

it('reads UPSTREAM_AUTH_FILE again when it has changed, and keeps the last valid content', async () => {
  const file = join(folder, 'changing.json')
  const next = join(folder, 'next.json')
  const replace = async (content: string) => {
    await writeFile(next, content)
    await rename(next, file)
  }
  const failures: string[] = []
  await replace(JSON.stringify({ bearer: { [first.host]: 'one' } }))
  const client = openUpstreamClient(readConfig({ ...upstreamsHere, UPSTREAM_AUTH_FILE: file }), {
    onError: ({ message }) => failures.push(message),
  })
  const sent = async () => {
    await client.for(trusted(first.url)).fetchDocument(`${first.url}/packages.json`, asText)
    return first.lastHeaders.authorization
  }
  try {
    expect(await sent()).toBe('Bearer one')
    await replace(JSON.stringify({ bearer: { [first.host]: 'two' } }))
    expect(await sent()).toBe('Bearer two')
    await replace('{')
    expect([await sent(), await sent(), failures.length]).toEqual(['Bearer two', 'Bearer two', 1])
    await rm(file)
    expect([await sent(), failures.at(-1)]).toEqual(['Bearer two', expect.stringContaining('ENOENT')])
    await replace(JSON.stringify({ bearer: { [first.host]: 'four' } }))
    expect(await sent()).toBe('Bearer four')
  } finally {
    await client.close()
  }
})

it('aborts requests at its close when an upstream does not end its responses', async () => {
  const client = openUpstreamClient(readConfig(upstreamsHere))
  first.fail('/endless.zip', (_, response) => response.writeHead(200).write('PK'))
  const asked = new Promise<void>((resolve) => first.fail('/hanging.json', () => resolve()))
  const { body } = await client.for(trusted(first.url)).fetchArchive(`${first.url}/endless.zip`)
  const failed = once(body, 'error')
  const document = client.for(trusted(first.url)).fetchDocument(`${first.url}/hanging.json`, asText)
  document.catch(() => {})
  await asked
  await client.close()
  expect(body.destroyed).toBe(true)
  await failed
  await expect(document).rejects.toThrow(ClosedClientError)
  await expect(
    client.for(trusted(first.url)).fetchDocument(`${first.url}/packages.json`, asText),
  ).rejects.toThrow(ClosedClientError)
})

describe('a document of an upstream', () => {
  it('is requested with a contact, and fetched again only when it has changed', async () => {
    const found = await get(`${first.url}/packages.json`, { UPSTREAM_CONTACT: 'ops@example.com' })
    expect(first.lastHeaders['user-agent']).toMatch(/^svc .*mailto=ops@example\.com/)
    const { lastModified } = found as { lastModified: string }
    const client = openUpstreamClient(readConfig(upstreamsHere))
    expect(
      await client
        .for(trusted(first.url))
        .fetchDocument(`${first.url}/packages.json`, asText, { lastModified }),
    ).toEqual({
      kind: 'unchanged',
    })
    await client.close()
  })

  it.each([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
  ])('is decoded from %s', async (coding, compress) => {
    first.fail('/coded.json', (_, response) =>
      response.writeHead(200, { 'content-encoding': coding }).end(compress('{"a":1}')),
    )
    expect(await get(`${first.url}/coded.json`)).toMatchObject({ kind: 'found', content: '{"a":1}' })
  })

  it('that decompresses to too many bytes is refused', async () => {
    for (const [coding, bomb] of [
      ['gzip', gzipSync(Buffer.alloc(17 * 1024 * 1024))],
      ['br', brotliCompressSync(Buffer.alloc(17 * 1024 * 1024), quickly)],
    ] as const) {
      first.fail('/bomb.json', (_, response) =>
        response.writeHead(200, { 'content-encoding': coding }).end(bomb),
      )
      await expect(get(`${first.url}/bomb.json`)).rejects.toThrow('more than 16777216 bytes')
    }
  })

  it('that is not modified, although svc has no copy, counts as a failure', async () => {
    first.fail('/unmodified.json', 304)
    await expect(get(`${first.url}/unmodified.json`)).rejects.toMatchObject({ status: 304 })
  })

  it('is decoded when it is much larger than its body', async () => {
    const text = JSON.stringify({ a: 'a'.repeat(1024 * 1024) })
    first.fail('/large.json', (_, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(text)),
    )
    expect(await get(`${first.url}/large.json`)).toMatchObject({ kind: 'found', content: text })
  })

  it('that is missing is distinguished from one that cannot be fetched', async () => {
    expect(await get(`${first.url}/none.json`)).toEqual({ kind: 'missing' })
    first.fail('/gone.json', 410)
    expect(await get(`${first.url}/gone.json`)).toEqual({ kind: 'missing' })
    first.fail('/busy.json', (_, response) => response.writeHead(429, { 'retry-after': '7' }).end())
    await expect(get(`${first.url}/busy.json`)).rejects.toMatchObject({ status: 429, retryAfter: 7 })
    first.fail('/broken.json', 500)
    await expect(get(`${first.url}/broken.json`)).rejects.toMatchObject({ status: 500 })
    first.fail('/cut.json', (_, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('{"a":')
      setTimeout(() => response.destroy(), 50)
    })
    await expect(get(`${first.url}/cut.json`)).rejects.toThrow('cannot be reached')
    await expect(get('http://127.0.0.1:1/x.json')).rejects.toThrow('ECONNREFUSED')
  })
})
