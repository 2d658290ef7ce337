import { describe, expect, it } from 'vitest'
import { resolveFiles } from '../../../src/registry/readmes/file-links.ts'
import { renderMarkdown } from '../../../src/registry/readmes/markdown.ts'

describe('a README in Markdown', () => {
  it.each([
    ['# Lib\n\n## Use', '<h3>Lib</h3>\n<h4>Use</h4>\n'],
    ['###### Deep', '<h6>Deep</h6>\n'],
    ['Some `code` and **words**', '<p>Some <code>code</code> and <strong>words</strong></p>\n'],
    ['```\n<b> & "c"\n```', '<pre tabindex="0"><code>&lt;b&gt; &amp; &quot;c&quot;\n</code></pre>\n'],
    ['```nothing\n<b>\n```', '<pre tabindex="0"><code class="language-nothing">&lt;b&gt;\n</code></pre>\n'],
    ['    <b>', '<pre tabindex="0"><code>&lt;b&gt;\n</code></pre>\n'],
    [
      '```json\n{"a": "<b>"}\n```',
      '<pre tabindex="0"><code class="language-json"><span class="hljs-punctuation">{</span><span class="hljs-attr">&quot;a&quot;</span><span class="hljs-punctuation">:</span> <span class="hljs-string">&quot;&lt;b&gt;&quot;</span><span class="hljs-punctuation">}</span>\n</code></pre>\n',
    ],
    [
      '- [x] done\n- [ ] open\n- [y] no',
      '<ul>\n<li class="task">☑ done</li>\n<li class="task">☐ open</li>\n<li>[y] no</li>\n</ul>\n',
    ],
    [
      '|a|\n|-|\n|b|',
      '<div class="scroll" tabindex="0"><table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>b</td>\n</tr>\n</tbody>\n</table></div>\n',
    ],
    [
      '[site](https://acme.test/?a=1&b=2)',
      '<p><a href="https://acme.test/?a=1&amp;b=2" rel="nofollow noopener noreferrer">site</a></p>\n',
    ],
    [
      '<https://acme.test>',
      '<p><a href="https://acme.test" rel="nofollow noopener noreferrer">https://acme.test</a></p>\n',
    ],
    [
      '[guide](docs/guide.md#use) and [part](#part)',
      '<p><a href="svc-file:docs%2Fguide.md">guide</a> and part</p>\n',
    ],
    [
      '[up](../../a%20b.md) [root](/c/)',
      '<p><a href="svc-file:a%20b.md">up</a> <a href="svc-file:c">root</a></p>\n',
    ],
    ['[x](//evil.test/a) [y](svc-file:a) [z](<a"b>)', '<p>x y <a href="svc-file:a%22b">z</a></p>\n'],
    [
      '![Logo](art/logo.svg "A title")',
      '<p><img src="svc-image:art%2Flogo.svg" alt="Logo" title="A title" loading="lazy"></p>\n',
    ],
    ['![Page](page.html) ![x](//evil.test/a.png) ![y](data:image/png;base64,AA==)', '<p>Page x y</p>\n'],
    [
      '![Build](https://ci.test/badge.svg) ![](https://ci.test/b.svg)',
      '<p><a href="https://ci.test/badge.svg" rel="nofollow noopener noreferrer">Build</a> <a href="https://ci.test/b.svg" rel="nofollow noopener noreferrer">ci.test</a></p>\n',
    ],
    [
      '[![Build](https://ci.test/b.svg)](https://ci.test)',
      '<p><a href="https://ci.test" rel="nofollow noopener noreferrer">Build</a></p>\n',
    ],
    [
      '[![Docs](logo.svg)](docs/)',
      '<p><a href="svc-file:docs"><img src="svc-image:logo.svg" alt="Docs" loading="lazy"></a></p>\n',
    ],
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
    '```php\n"><script>alert(1)</script>\n```',
    '```html\n<img src=x onerror=alert(1)> href="svc-file:x\n```',
    '```php" onmouseover="alert(1)\n```',
    'href="svc-file:x" src="svc-image:x"',
    '![x](https://evil.test/a.png)',
    '![a" onerror="alert(1)](a.png)',
  ])('loads and runs nothing: %j', (text) => {
    const html = renderMarkdown(text)
    expect(html).not.toMatch(
      /<(?:script|style|iframe)|<[^>]*\son\w+=(?!&quot;)|<[^>]*href="(?!https?:|mailto:)/i,
    )
    expect(html).not.toMatch(/<img(?! src="svc-image:[\w%.-]*")/i)
    // Only attributes of tags may get the URLs of files.
    const between = html.replace(/<[^>]*>/g, '')
    expect(resolveFiles(between, { page: '/files', image: '/image' })).toBe(between)
  })

  it('is rendered, whatever it contains', () => {
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
