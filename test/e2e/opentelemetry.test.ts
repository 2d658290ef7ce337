import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { aMember, anAccount, aPersonalToken, aRepository } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'
import { databaseUrl, startServer, stopServer } from '../support/program.ts'
import { aPackageZip, basic } from '../support/registry-actors.ts'

interface Span {
  name: string
  kind: number
  traceId: string
  spanId: string
  parentSpanId?: string
  attributes: { key: string; value: Record<string, unknown> }[]
}

/** The body of a request to a collector (OTLP/HTTP). */
interface Traces {
  resourceSpans: { scopeSpans: { spans: Span[] }[] }[]
}

const traceId = '0af7651916cd43dd8448eb211c80319c'
const callerId = 'b7ad6b7169203331'
/** The kind of a span of a request that a server received. */
const serverKind = 2

const [command = ''] = Array.from(
  (await readFile('docs/monitoring.md', 'utf8')).matchAll(/```sh\n(.*?)```/gs),
  ([, text = '']) => text,
).filter((text) => text.includes('--import'))

/** Collects the spans that programs send to it. */
async function startCollector() {
  const spans: Span[] = []
  const server = createServer((request, response) => {
    request.toArray().then(
      (chunks) => {
        const { resourceSpans } = JSON.parse(Buffer.concat(chunks as Buffer[]).toString()) as Traces
        spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)))
        response.setHeader('content-type', 'application/json').end('{}')
      },
      (error: Error) => response.destroy(error),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { spans, url: `http://127.0.0.1:${port}`, stop: () => server.close() }
}

describe('OpenTelemetry, as docs/monitoring.md starts it', async () => {
  const database = useDatabase()
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-test-traces-'))
  const collector = await startCollector()
  afterAll(async () => {
    collector.stop()
    await rm(dataDir, { recursive: true })
  })

  it('gives the spans of a pull, from the request down to its statement, without secrets', async () => {
    const [, flags = '', main = ''] = /\bnode (.*) (\S+)\s*$/.exec(command) ?? []
    expect([flags, main]).toEqual([
      '--import @opentelemetry/auto-instrumentations-node/register',
      'dist/main.js',
    ])
    const environment = {
      ...Object.fromEntries(
        Array.from(command.matchAll(/(OTEL_\w+)=(\S+)/g), ([, name, value]) => [name, value]),
      ),
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '200',
      DATABASE_URL: databaseUrl(database.connection),
      DATA_DIR: dataDir,
    }
    const server = await startServer(environment, undefined, join(process.cwd(), main), flags.split(' '))
    const repository = await aRepository(database.db)
    const account = await anAccount(database.db)
    await aMember(database.db, account, repository, 'developer')
    const token = await aPersonalToken(database.db, account, { scopes: ['registry-package:rw'] })
    const registry = `${server.url}/${repository.path}/-/packages`
    const headers = { authorization: basic(token) }
    const pushed = await fetch(`${registry}/upload/acme/lib/1.0.0`, {
      method: 'PUT',
      headers,
      body: new Uint8Array(aPackageZip('acme/lib')),
    })
    expect(pushed.status).toBe(201)
    const traceparent = `00-${traceId}-${callerId}-01`
    const pulled = await fetch(`${registry}/p2/acme/lib.json`, { headers: { ...headers, traceparent } })
    expect(pulled.status).toBe(200)
    const traceOf = () => collector.spans.filter((span) => span.traceId === traceId)
    const requestIn = (spans: Span[]) => spans.find(({ kind }) => kind === serverKind)
    // The span of the request ends last. The process does not wait for spans that it is still sending when it exits.
    await expect.poll(() => requestIn(traceOf())).toBeDefined()
    const { code, stderr } = await stopServer(server)
    expect(code).toBe(0)

    const trace = traceOf()
    const request = requestIn(trace)
    expect(request).toMatchObject({ name: 'GET', parentSpanId: callerId })
    const statements = trace.filter(({ name }) => name.startsWith('pg.query:'))
    const documents = statements.filter((span) => textOf(span).includes('registry_access'))
    expect(documents.map(({ parentSpanId }) => parentSpanId)).toEqual([request?.spanId])
    // The values of statements and the headers are not part of spans.
    const everything = JSON.stringify(collector.spans)
    expect(everything).toContain('insert into')
    for (const secret of [token, basic(token)]) expect(everything).not.toContain(secret)

    const line = stderr.split('\n').find((text) => text.includes('p2/acme/lib.json'))
    expect(JSON.parse(line ?? '{}')).toMatchObject({ traceparent })
  })
})

function textOf({ attributes }: Span): string {
  const text = attributes.find(({ key }) => ['db.query.text', 'db.statement'].includes(key))
  return String(text?.value['stringValue'])
}
