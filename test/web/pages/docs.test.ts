import { readdir } from 'node:fs/promises'
import fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import { openNetworkTurns } from '../../../src/web/network-turns.ts'
import { pagePolicy, servePages } from '../../../src/web/page-scope.ts'
import { docsRoutes, renderDocsPage, searchDocuments } from '../../../src/web/pages/docs.ts'
import type { PagesContext } from '../../../src/web/pages/permit.ts'
import { registerViews } from '../../../src/web/pages.ts'
import { anAccount, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'

const t = useApp()

describe('/docs', () => {
  it('lists and renders every file of docs/, with ids that its table of contents links to', async () => {
    const index = await t.app.inject('/docs')
    const entries = await readdir('docs', { recursive: true })
    const isListed = (path: string) => !path.includes('/') || path.endsWith('/README.md')
    // docs/README.md is this list.
    const files = entries.filter((path) => path.endsWith('.md') && path !== 'README.md')
    const listed = files.filter(isListed)
    const links = [...index.body.matchAll(/href="(\/docs\/[\w-]+)"/g)].map(([, link]) => String(link))
    expect(new Set(links).size).toBe(listed.length + 1)
    expect(links.slice(0, 1)).toEqual(['/docs/terms'])
    const headings = [...index.body.matchAll(/<h2>(.*)<\/h2>/g)].map(([, heading]) => heading)
    expect(headings).toEqual([
      'For people who publish, install and build',
      'For operators',
      'For maintainers of svc',
    ])
    expect(links.indexOf('/docs/packages')).toBeLessThan(links.indexOf('/docs/operations'))
    expect(links.indexOf('/docs/operations')).toBeLessThan(links.indexOf('/docs/architecture'))
    const cards = index.body.match(/<li><h3 class="title">[\s\S]*?<\/li>/g) ?? []
    expect(cards).toHaveLength(listed.length + 1)
    for (const card of cards) expect(card).toMatch(/<p class="muted">\w.{20,}\.<\/p>/)
    const inFolders = files.filter((path) => !isListed(path)).map((path) => `/docs/${path.slice(0, -3)}`)
    expect(inFolders.length).toBeGreaterThan(4)
    for (const link of [...links, ...inFolders]) {
      const { body, statusCode } = await t.app.inject(link)
      expect(statusCode, link).toBe(200)
      expect(body, link).not.toMatch(/href="\.\.?\//)
      for (const [, id] of body.matchAll(/href="#([^"]+)"/g)) {
        expect(body, `${link}#${id}`).toContain(`id="${id}"`)
      }
      for (const [, other] of body.matchAll(/href="(\/docs[^"#]*)/g)) {
        expect((await t.app.inject(String(other))).statusCode, String(other)).toBe(200)
      }
    }
  })

  it('leads from a page in a folder back to the page of the folder', async () => {
    const crumbs = async (url: string) =>
      [
        ...((await t.app.inject(url)).body.match(/<nav class="crumbs".*/)?.[0] ?? '').matchAll(
          /href="([^"]+)"/g,
        ),
      ].map(([, link]) => link)
    expect(await crumbs('/docs/rules/oauth')).toEqual(['/docs', '/docs/rules'])
    expect(await crumbs('/docs/rules')).toEqual(['/docs'])
  })

  it('finds the sections with all words, and links to them', async () => {
    const { body } = await t.app.inject('/docs?q=PgBouncer+transaction')
    const [, link = ''] = /class="title"><a href="([^"]+)"/.exec(body) ?? []
    const [url = '', id] = link.split('#')
    expect((await t.app.inject(url)).body).toContain(`id="${id}"`)
    expect((await t.app.inject('/docs?q=no+such-word-anywhere')).body).toContain('No section contains')
    const hostile = await t.app.inject('/docs?q=%3Cscript%3Ealert')
    expect([hostile.statusCode, hostile.body.includes('<script>alert')]).toEqual([200, false])
  })

  it('shows search results with a space between words, and with whole words at both ends', () => {
    const filler = 'word '.repeat(40)
    const { sections } = renderDocsPage('x.md', `# X\n\n## One\n\n${filler}\nneedle\nafter ${filler}\n`)
    const [document] = [{ name: 'x', title: 'X', html: '', sections }]
    const [found] = searchDocuments([document], 'needle')
    expect(found?.excerpt).toMatch(/^word (.* )?needle after (.* )?word$/)
  })

  it.each(['/docs/no-such', '/docs/..%2Fpackage', '/docs/api.md', '/docs/README', '/docs/rules/no-such'])(
    'has no page %s',
    async (url) => {
      expect((await t.app.inject(url)).statusCode).toBe(404)
    },
  )

  it('gives ids to headings, links to other documents, and shows raw HTML as text', () => {
    const { html, title, sections } = renderDocsPage(
      'x.md',
      '# The `x`\n\n## One: two\n\n## One: two\n\n[n](nginx.md#top) [a](api.md) <b>\n',
    )
    expect(title).toBe('The x')
    expect(sections.map(({ id }) => id)).toEqual(['one-two', 'one-two-1'])
    expect(html).toContain('<a href="/docs/nginx#top">')
    expect(html).toContain('<a href="/docs/api-guide">')
    expect(html).toContain('&lt;b&gt;')
  })

  it('leads from a document in a folder to the pages of others, and has no links out of docs/', () => {
    const { name, html } = renderDocsPage(
      'rules/x.md',
      '# X\n\n[a](y.md) [b](../nginx.md) [c](README.md) [d](../decisions/README.md#e) [f](../../CHANGELOG.md)',
    )
    expect(name).toBe('rules/x')
    const links = [...html.matchAll(/href="([^"]+)"/g)].map(([, link]) => link)
    expect(links).toEqual(['/docs/rules/y', '/docs/nginx', '/docs/rules', '/docs/decisions#e'])
    expect(html).toContain(' f</p>')
  })
})

describe('/docs/api', () => {
  it('shows every operation of the OpenAPI document with its scope', async () => {
    const description = (await t.app.inject('/api/openapi.json')).json() as {
      paths: Record<string, Record<string, { operationId?: string; parameters?: { name: string }[] }>>
    }
    const { body, statusCode } = await t.app.inject('/docs/api')
    const [shared = '', ...sections] = body.split('<details id="')
    expect(statusCode).toBe(200)
    expect(Buffer.byteLength(body)).toBeLessThan(120_000)
    for (const [path, operations] of Object.entries(description.paths)) {
      expect(body).toContain(`<code>${path}</code>`)
      for (const { operationId = '', parameters = [] } of Object.values(operations)) {
        const section = sections.find((one) => one.startsWith(`${operationId}"`))
        for (const { name } of parameters) {
          expect([shared, section].some((one) => one?.includes(`<code>${name}</code>: `))).toBe(true)
          expect(section).toMatch(new RegExp(`<code>${name}</code>|\\{${name}\\}`))
        }
      }
    }
    expect(body).toContain('Requires the scope registry-manage:rw.')
    expect(body).toContain('affected_versions')
    // What many endpoints have in the same way is described once.
    expect(body.split('<code>cursor</code>: ')).toHaveLength(2)
  })
})

describe('/docs/api/types', () => {
  it('shows every member of every object that a response contains, with its example', async () => {
    const description = (await t.app.inject('/api/openapi.json')).json() as {
      components: { schemas: Record<string, { properties?: Record<string, object> }> }
    }
    const [endpoints, types] = await Promise.all(
      ['/docs/api', '/docs/api/types'].map(async (url) => (await t.app.inject(url)).body),
    )
    expect(Buffer.byteLength(types ?? '')).toBeLessThan(100_000)
    const sections = new Map(
      (types ?? '')
        .split('<h2 id="')
        .slice(1)
        .map((section) => [section.split('"')[0], section]),
    )
    // The bodies of requests are on the page of the endpoints.
    const named = Object.entries(description.components.schemas).filter(([name]) => !name.endsWith('Input'))
    expect(new Set(sections.keys())).toEqual(new Set(named.map(([name]) => name)))
    for (const [name, { properties = {} }] of named) {
      for (const member of Object.keys(properties)) {
        expect(sections.get(name)).toContain(`<li><code>${member}</code>: `)
      }
    }
    expect(sections.get('PackageWithVersions')).toContain(
      'list of <a href="/docs/api/types#Version">Version</a>',
    )
    expect(sections.get('Version')).toContain('Example: <code>1.0.0</code>')
    for (const [, name = ''] of (endpoints ?? '').matchAll(/\/docs\/api\/types#(\w+)/g)) {
      expect(sections.has(name)).toBe(true)
    }
  })
})

describe('/docs/api and the description of the API', () => {
  it.each(['/docs/api', '/docs/api/types', '/api/openapi.json'])(
    'are sent once to a client that keeps them: %s',
    async (url) => {
      const { headers, body } = await t.app.inject(url)
      expect(headers['cache-control']).toMatch(/no-cache$/)
      const again = await t.app.inject({ url, headers: { 'if-none-match': headers['etag'] as string } })
      expect([again.statusCode, again.body, again.headers['etag']]).toEqual([304, '', headers['etag']])
      expect(body.length).toBeGreaterThan(10_000)
      const other = await t.app.inject({ url, headers: { 'if-none-match': '"other"' } })
      expect([other.statusCode, other.body]).toEqual([200, body])
    },
  )

  it('are serialized by the first request only', async () => {
    await t.app.inject('/docs/api')
    const before = process.cpuUsage()
    for (let i = 0; i < 100; i += 1) expect((await t.app.inject('/api/openapi.json')).statusCode).toBe(200)
    // To serialize it takes about 100 ms of processor time, so all requests together would take 10 s.
    expect(process.cpuUsage(before).user).toBeLessThan(3_000_000)
  })

  it('has another tag for another visitor', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const [anonymous, signedIn] = await Promise.all([
      t.app.inject('/docs/api'),
      t.app.inject({ url: '/docs/api', headers: { cookie } }),
    ])
    expect(signedIn.headers['etag']).not.toBe(anonymous.headers['etag'])
  })
})

describe('/docs/api, when the description of the API fails first', () => {
  it('shows it at the next request', async () => {
    const described = (await t.app.inject('/api/openapi.json')).json()
    let requests = 0
    const describeApi = async () => {
      requests += 1
      if (requests === 1) throw new Error('not yet')
      return described
    }
    const app = fastify({ logger: false })
    openNetworkTurns(app)
    await registerViews(app, { config: t.config, findVisitor: async () => null })
    await app.register(async (scope) => {
      await servePages(scope, t.config, pagePolicy)
      await docsRoutes(scope, { config: t.config, db: t.db, describeApi } as unknown as PagesContext)
    })
    const statuses: number[] = []
    for (let i = 0; i < 3; i += 1) statuses.push((await app.inject('/docs/api')).statusCode)
    expect([statuses, requests]).toEqual([[500, 200, 200], 2])
    await app.close()
  })
})
