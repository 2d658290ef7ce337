import { describe, expect, it } from 'vitest'
import { renderMarkdown } from '../../../src/registry/readmes/markdown.ts'

describe('a README in Markdown', () => {
  it.each([
    ['# Lib\n\n## Use', '<h3>Lib</h3>\n<h4>Use</h4>\n'],
    ['###### Deep', '<h6>Deep</h6>\n'],
    ['Some `code` and **words**', '<p>Some <code>code</code> and <strong>words</strong></p>\n'],
    ['```php\n<?php echo 1;\n```', '<pre><code class="language-php">&lt;?php echo 1;\n</code></pre>\n'],
    [
      '[site](https://acme.test/?a=1&b=2)',
      '<p><a href="https://acme.test/?a=1&amp;b=2" rel="nofollow noopener noreferrer">site</a></p>\n',
    ],
    [
      '<https://acme.test>',
      '<p><a href="https://acme.test" rel="nofollow noopener noreferrer">https://acme.test</a></p>\n',
    ],
    ['[guide](docs/guide.md) and [part](#part)', '<p>guide and part</p>\n'],
    ['![Build](https://ci.test/badge.svg)', '<p>Build</p>\n'],
    [
      '[![Build](https://ci.test/b.svg)](https://ci.test)',
      '<p><a href="https://ci.test" rel="nofollow noopener noreferrer">Build</a></p>\n',
    ],
    ['[![Docs](logo.svg)](docs/)', '<p>Docs</p>\n'],
  ])('is shown as HTML: %j', (text, html) => {
    expect(renderMarkdown(text)).toBe(html)
  })

  it.each([
    '<script>alert(1)</script>',
    '<img src=x onerror=alert(1)>',
    '[x](javascript:alert(1))',
    '[x](JaVaScRiPt:alert(1))',
    '[x](data:text/html,<script>alert(1)</script>)',
    '![x](javascript:alert(1))',
    '![<img src=x onerror=alert(1)>](x)',
    '[x](https://a.test"onmouseover="alert(1))',
    '<https://a.test/"><script>alert(1)</script>',
    '```"><script>alert(1)</script>\n```',
    '[a]: javascript:alert(1)\n\n[a]',
    '| a |\n|---|\n| <script>alert(1)</script> |',
    'vbscript:alert(1) <style>*{}</style>',
  ])('loads and runs nothing: %j', (text) => {
    const html = renderMarkdown(text)
    expect(html).not.toMatch(/<(?:script|img|style|iframe)|<[^>]*\son\w+=|href="(?!https?:|mailto:)/i)
  })

  it('is rendered whatever is in it', () => {
    for (const text of [
      '[',
      '*'.repeat(20_000),
      '['.repeat(5_000),
      '> '.repeat(5_000),
      '\0\uFFFF',
      `${'|a'.repeat(2_000)}\n|-`,
    ]) {
      expect(renderMarkdown(text)).toEqual(expect.any(String))
    }
  })
})
