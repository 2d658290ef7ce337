import { expect, it } from 'vitest'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { expand } from '../support/registry-actors.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const t = useApp({ ...upstreamsHere, MAX_ARCHIVE_BYTES: '100000', BASE_URL: 'http://svc.test' })
const upstream = useUpstream()

it('an archive whose announced size is over the limit is refused before it is read, and counts as failed', async () => {
  const { call, ask, path } = await aCaller(t)
  await call('POST', '/upstreams', { url: upstream.url, name: 'public' })
  upstream.offer('large/lib', ['1.0.0'])
  // Only the beginning arrives. A request that reads on would wait for the rest.
  upstream.fail('/archives/large/lib/1.0.0.zip', (_, response) => {
    response.writeHead(200, { 'content-length': 100_001 }).write('PK')
  })
  const [entry] = expand((await ask('p2/large/lib.json')).body, 'large/lib')
  const { url } = { ...(entry?.['dist'] as object) } as { url: string }
  for (let i = 0; i < 2; i += 1) {
    const refused = await ask(url.slice(`http://svc.test${path}`.length))
    expect([refused.statusCode, refused.json()]).toMatchObject([
      413,
      { errcode: 8, warning: 'The archive has 100001 bytes, and this registry accepts at most 100000.' },
    ])
  }
  expect((await t.app.inject('/metrics')).body).toMatch(
    /svc_upstream_requests_total\{kind="archive",outcome="failed"\} 2/,
  )
})
