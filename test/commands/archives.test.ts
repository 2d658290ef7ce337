import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { databaseUrl, freePort, runSvc } from '../support/program.ts'

const t = useApp()

describe('svc archives copy', () => {
  /** A bucket that is empty, and that its user may only read. */
  const bucket = createServer((request, response) => {
    const isList = request.url?.includes('list-type') === true
    const [status, body] =
      request.method === 'PUT'
        ? [403, '<Error><Code>AccessDenied</Code></Error>']
        : isList
          ? [200, '<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>']
          : [404, '']
    response.writeHead(status, { connection: 'close' }).end(body)
  })
  beforeAll(() => new Promise<void>((resolve) => bucket.listen(0, '127.0.0.1', resolve)))
  afterAll(() => new Promise((resolve) => bucket.close(resolve)))

  const copyTo = (port: number) =>
    runSvc(['archives', 'copy', '--to', `s3://backup?endpoint=http://127.0.0.1:${port}&path_style=true`], {
      DATABASE_URL: databaseUrl(t.connection),
      DATA_DIR: t.config.dataDir,
      AWS_ACCESS_KEY_ID: 'key',
      AWS_SECRET_ACCESS_KEY: 'secret',
    })

  it('names the cause when the other store refuses a request, or does not respond', async () => {
    const { push } = await aCaller(t)
    await push('1.0.0')
    const refused = await copyTo((bucket.address() as AddressInfo).port)
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringMatching(/PUT archives.*: 403 AccessDenied/),
    ])
    const port = await freePort()
    const silent = await copyTo(port)
    expect([silent.code, silent.stderr]).toEqual([
      1,
      `svc: the archive store does not respond: connect ECONNREFUSED 127.0.0.1:${port}\n`,
    ])
  })
})
