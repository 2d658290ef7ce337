import dns from 'node:dns'
import { createServer } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readConfig } from '../../../src/config.ts'
import { openUpstreamClient, type UpstreamRights } from '../../../src/upstreams/client/fetch.ts'
import { isPublicIp } from '../../../src/upstreams/client/public-hosts.ts'
import { trusted } from '../../support/upstream.ts'

describe('isPublicIp', () => {
  it.each(['8.8.8.8', '1.1.1.1', '193.99.144.80', '2606:4700::1111', '64:ff9b::808:808', '::ffff:8.8.8.8'])(
    'accepts %s',
    (ip) => expect(isPublicIp(ip)).toBe(true),
  )

  it.each([
    ...[
      '127.0.0.1',
      '127.8.8.8',
      '0.0.0.0',
      '10.1.2.3',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
      '100.64.0.1',
    ],
    ...[
      '169.254.169.254',
      '224.0.0.1',
      '255.255.255.255',
      '192.0.2.1',
      '198.18.0.1',
      '240.0.0.1',
      '192.88.99.1',
      '168.63.129.16',
    ],
    ...['::7f00:1', '::a9fe:a9fe', '::808:808', '::127.0.0.1'],
    ...['::1', '::', 'fe80::1', 'fc00::1', 'fd00:ec2::254', 'ff02::1', '::ffff:127.0.0.1', '::ffff:10.0.0.1'],
    ...[
      '64:ff9b::7f00:1',
      '64:ff9b::a9fe:a9fe',
      '2002:7f00:1::',
      '2001:0:1::1',
      '2001:db8::1',
      'localhost',
      '',
    ],
  ])('refuses %s', (ip) => expect(isPublicIp(ip)).toBe(false))
})

describe('the client for upstreams', () => {
  let port = 0
  const seen: { url: string; authorization: string | undefined }[] = []
  const server = createServer((request, response) => {
    seen.push({ url: request.url ?? '', authorization: request.headers.authorization })
    const [, to] = /^\/to\/(.*)$/.exec(request.url ?? '') ?? []
    if (to !== undefined) return void response.writeHead(302, { location: decodeURIComponent(to) }).end()
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    port = (server.address() as AddressInfo).port
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })

  async function get(
    url: string,
    environment: Record<string, string> = {},
    rights: Partial<UpstreamRights> = {},
  ) {
    const at = url.replace('PORT', String(port))
    const client = openUpstreamClient(readConfig({ UPSTREAM_HTTP: 'true', ...environment }))
    try {
      return await client.for({ ...trusted(at), ...rights }).fetchDocument(at, async () => {})
    } finally {
      await client.close()
    }
  }

  it.each([
    'http://127.0.0.1:PORT/',
    'http://localhost:PORT/',
    'http://2130706433:PORT/',
    'http://0x7f.1:PORT/',
    'http://[::1]:PORT/',
    'http://[::ffff:127.0.0.1]:PORT/',
    'http://0.0.0.0:PORT/',
  ])('does not connect to %s', async (url) => {
    const before = seen.length
    await expect(get(url)).rejects.toThrow('has no public IP')
    expect(seen.length).toBe(before)
  })

  it('does not connect to a name that has a private IP beside a public one', async () => {
    const addresses = [
      { address: '127.0.0.1', family: 4 },
      { address: '8.8.8.8', family: 4 },
    ]
    const lookup = vi.spyOn(dns, 'lookup')
    lookup.mockImplementation((...given: unknown[]) => {
      const callback = given.at(-1) as (error: null, found: typeof addresses) => void
      callback(null, addresses)
    })
    syncBuiltinESMExports()
    const before = seen.length
    try {
      await expect(get('http://both.example:PORT/')).rejects.toThrow('both.example has no public IP')
      expect(lookup).toHaveBeenCalledOnce()
      expect(seen.length).toBe(before)
    } finally {
      lookup.mockRestore()
      syncBuiltinESMExports()
    }
  })

  it('sends no credentials from a URL, also of a redirect', async () => {
    const here = { OUTBOUND_PRIVATE_HOSTS: '127.0.0.1' }
    const before = seen.length
    const target = encodeURIComponent(`http://eve:secret@127.0.0.1:${port}/end`)
    await get(`http://ann:secret@127.0.0.1:PORT/to/${target}`, here)
    expect(seen.slice(before)).toEqual([
      { url: `/to/${target}`, authorization: undefined },
      { url: '/end', authorization: undefined },
    ])
  })

  it('connects to a private host that is listed, with or without its port', async () => {
    await expect(
      get('http://127.0.0.1:PORT/', { UPSTREAM_PRIVATE_HOSTS: '127.0.0.1' }),
    ).resolves.toMatchObject({
      kind: 'found',
    })
    await expect(
      get('http://localhost:PORT/', { UPSTREAM_PRIVATE_HOSTS: `localhost:${port}` }),
    ).resolves.toMatchObject({ kind: 'found' })
    await expect(get('http://127.0.0.1:PORT/', { UPSTREAM_PRIVATE_HOSTS: '127.0.0.1:1' })).rejects.toThrow(
      'public',
    )
  })

  it('reaches listed private hosts only for an upstream of an operator', async () => {
    const before = seen.length
    const listed = { UPSTREAM_PRIVATE_HOSTS: '127.0.0.1' }
    const mine = { reachesPrivateHosts: false }
    await expect(get('http://127.0.0.1:PORT/', listed, mine)).rejects.toThrow('has no public IP')
    expect(seen.length).toBe(before)
    await expect(get('http://127.0.0.1:PORT/', listed)).resolves.toMatchObject({ kind: 'found' })
  })

  it('does not tell a private name from one that does not exist, also after a redirect', async () => {
    const said = async (host: string, path = '') => {
      const url = `http://${path === '' ? host : '127.0.0.1'}:PORT/${path}`
      const listed = path === '' ? {} : { OUTBOUND_PRIVATE_HOSTS: '127.0.0.1' }
      const error = await get(url, listed).then(() => 'found', String)
      return error.replaceAll(host, 'HOST')
    }
    const redirect = (host: string) => `to/${encodeURIComponent(`http://${host}/`)}`
    expect(await said('nothing.invalid')).toBe(await said('localhost'))
    expect(await said('nothing.invalid', redirect('nothing.invalid'))).toBe(
      await said('localhost', redirect('localhost')),
    )
  })

  it('checks the host of every redirect', async () => {
    const before = seen.length
    const target = encodeURIComponent(`http://localhost:${port}/secret`)
    await expect(
      get(`http://127.0.0.1:PORT/to/${target}`, { UPSTREAM_PRIVATE_HOSTS: '127.0.0.1' }),
    ).rejects.toThrow('localhost has no public IP')
    expect(seen.slice(before).map(({ url }) => url)).toEqual([`/to/${target}`])
  })

  it('follows five redirects and not six', async () => {
    const nest = (times: number): string =>
      times === 0 ? '/end' : `/to/${encodeURIComponent(nest(times - 1))}`
    const environment = { UPSTREAM_PRIVATE_HOSTS: '127.0.0.1' }
    await expect(get(`http://127.0.0.1:PORT${nest(5)}`, environment)).resolves.toMatchObject({
      kind: 'found',
    })
    await expect(get(`http://127.0.0.1:PORT${nest(6)}`, environment)).rejects.toThrow(
      'redirects more than 5 times',
    )
  })

  it('refuses plain http unless it is allowed, and other schemes always', async () => {
    const here = { UPSTREAM_PRIVATE_HOSTS: '127.0.0.1' }
    await expect(get('http://127.0.0.1:PORT/', { ...here, UPSTREAM_HTTP: 'false' })).rejects.toThrow(
      'is not https',
    )
    await expect(get('file:///etc/passwd')).rejects.toThrow('not http or https')
    await expect(
      get(`http://127.0.0.1:PORT/to/${encodeURIComponent('file:///etc/passwd')}`, here),
    ).rejects.toThrow('not http or https')
  })
})
