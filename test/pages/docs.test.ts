import { readdir } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { renderDocsPage } from '../../src/pages/docs.ts'
import { useApp } from '../support/app.ts'

const t = useApp()

describe('/docs', () => {
  it('lists and renders every file of docs/, with ids that its contents lead to', async () => {
    const index = await t.app.inject('/docs')
    const files = (await readdir('docs')).filter((file) => file.endsWith('.md'))
    const links = [...index.body.matchAll(/href="(\/docs\/[\w-]+)"/g)].map(([, link]) => String(link))
    expect(new Set(links).size).toBe(files.length + 1)
    for (const link of links) {
      const { body, statusCode } = await t.app.inject(link)
      expect(statusCode, link).toBe(200)
      for (const [, id] of body.matchAll(/href="#([^"]+)"/g)) {
        expect(body, `${link}#${id}`).toContain(`id="${id}"`)
      }
      for (const [, other] of body.matchAll(/href="(\/docs[^"#]*)/g)) {
        expect((await t.app.inject(String(other))).statusCode, String(other)).toBe(200)
      }
    }
  })

  it.each(['/docs/no-such', '/docs/..%2Fpackage', '/docs/api.md'])('has no page %s', async (url) => {
    expect((await t.app.inject(url)).statusCode).toBe(404)
  })

  it('gives ids to headings, leads to other documents, and shows raw HTML as text', () => {
    const { html, title, sections } = renderDocsPage(
      'x',
      '# The `x`\n\n## One: two\n\n## One: two\n\n[n](nginx.md#top) [a](api.md) <b>\n',
    )
    expect(title).toBe('The x')
    expect(sections.map(({ id }) => id)).toEqual(['one-two', 'one-two-1'])
    expect(html).toContain('<a href="/docs/nginx#top">')
    expect(html).toContain('<a href="/docs/api-guide">')
    expect(html).toContain('&lt;b&gt;')
  })
})

describe('/docs/api', () => {
  it('shows every operation of the OpenAPI document with its scope', async () => {
    const description = (await t.app.inject('/api/openapi.json')).json() as {
      paths: Record<string, Record<string, { operationId?: string; summary?: string }>>
    }
    const { body, statusCode } = await t.app.inject('/docs/api')
    expect(statusCode).toBe(200)
    for (const [path, operations] of Object.entries(description.paths)) {
      expect(body).toContain(`<code>${path}</code>`)
      for (const { operationId } of Object.values(operations)) {
        if (operationId) expect(body).toContain(`id="${operationId}"`)
      }
    }
    expect(body).toContain('Requires the scope registry-manage:rw.')
    expect(body).toContain('affected_versions')
  })
})
