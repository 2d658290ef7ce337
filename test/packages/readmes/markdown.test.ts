import { describe, expect, it } from 'vitest'
import { resolveFiles } from '../../../src/packages/readmes/file-links.ts'
import { renderMarkdown } from '../../../src/packages/readmes/markdown.ts'

describe('a README in Markdown', () => {
  it.each([
    ['# Lib\n\n## Use', '<h3>Lib</h3>\n<h4>Use</h4>\n'],
    [
      '[a](#use-it-now-1) [b](#lib)\n\n# Lib\n\n## Use `it`, now!\n\n## Use it now',
      '<p><a href="#readme-use-it-now-1">a</a> <a href="#readme-lib">b</a></p>\n<h3 id="readme-lib">Lib</h3>\n<h4>Use <code>it</code>, now!</h4>\n<h4 id="readme-use-it-now-1">Use it now</h4>\n',
    ],
    ['###### Deep', '<h6>Deep</h6>\n'],
    [
      '[use](#Use) [none](#no)\n\n# Use',
      '<p><a href="#readme-use">use</a> none</p>\n<h3 id="readme-use">Use</h3>\n',
    ],
    [
      '|a|\n|:-:|',
      '<div class="scroll" tabindex="0"><table>\n<thead>\n<tr>\n<th align="center">a</th>\n</tr>\n</thead>\n</table></div>\n',
    ],
    ['Some `code` and **words**', '<p>Some <code>code</code> and <strong>words</strong></p>\n'],
    ['```\n<b> & "c"\n```', '<pre tabindex="0"><code>&lt;b&gt; &amp; &quot;c&quot;\n</code></pre>\n'],
    ['```nothing\n<b>\n```', '<pre tabindex="0"><code class="language-nothing">&lt;b&gt;\n</code></pre>\n'],
    [
      '> [!NOTE]\n> Hello **you**\n> and me',
      '<div class="alert note">\n<p class="alert-title">Note</p>\n<p>Hello <strong>you</strong>\nand me</p>\n</div>\n',
    ],
    [
      '> [!warning]  \n>\n> - a\n>\n> > b',
      '<div class="alert warning"><p class="alert-title">Warning</p>\n\n<ul>\n<li>a</li>\n</ul>\n<blockquote>\n<p>b</p>\n</blockquote>\n</div>\n',
    ],
    [
      '> [!NOTE] no\n\n> [!SOON]\n> no',
      '<blockquote>\n<p>[!NOTE] no</p>\n</blockquote>\n<blockquote>\n<p>[!SOON]\nno</p>\n</blockquote>\n',
    ],
    ['- > [!TIP]\n  > no', '<ul>\n<li>\n<blockquote>\n<p>[!TIP]\nno</p>\n</blockquote>\n</li>\n</ul>\n'],
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
    [
      '<p align="center"><a href="https://acme.test"><img src="art/logo.svg" width="200" onclick="x()" alt="Logo"></a></p>',
      '<p align="center"><a href="https://acme.test" rel="nofollow noopener noreferrer"><img src="svc-image:art%2Flogo.svg" alt="Logo" width="200" loading="lazy"></a></p>',
    ],
    [
      '<a href="https://ci.test"><img src="https://ci.test/b.svg" alt="Build"></a> <IMG SRC=https://ci.test/c.svg>',
      '<p><a href="https://ci.test" rel="nofollow noopener noreferrer">Build</a> <a href="https://ci.test/c.svg" rel="nofollow noopener noreferrer">ci.test</a></p>\n',
    ],
    [
      'one<br>two <kbd style="x">Esc</kbd><!-- a note --> a&nbsp;b',
      '<p>one<br>two <kbd>Esc</kbd> a\u00a0b</p>\n',
    ],
    [
      '<details open><summary>More</summary>\n\n- **a**\n\n</details>\n\nend',
      '<details open=""><summary>More</summary>\n<ul>\n<li><strong>a</strong></li>\n</ul>\n</details>\n<p>end</p>\n',
    ],
    // As in browsers. Looking for the end from each of many beginnings would take seconds.
    ['<div>a<!-- b <!-- c', '<div>a</div>'],
    ['<h1 id="x">Lib &amp; &lt;co&gt;</h1>', '<h3>Lib &amp; &lt;co&gt;</h3>'],
    ['<table><tr><td>a<td>b</table>', '<table><tr><td>a</td><td>b</td></tr></table>'],
    ['<a href="docs/a.md">a</a>', '<p><a href="svc-file:docs%2Fa.md">a</a></p>\n'],
    ['<a href="#use">a</a>\n\n# Use', '<p><a href="#readme-use">a</a></p>\n<h3 id="readme-use">Use</h3>\n'],
  ])('may have harmless HTML: %j', (text, html) => {
    expect(renderMarkdown(text)).toBe(html)
  })

  it.each([
    ['</div></td></main>x', '&lt;/main&gt;x'],
    ['<div>x', '<div>x</div>'],
    ['- <div>a\n- b', '<ul>\n<li>\n<div>a\n</div></li>\n<li>b</li>\n</ul>\n'],
    // A browser would close the first div at the second li, and a div of the page at the last end tag.
    ['<div><li><div><li>a</li></div></li></div>', '<div><div>a</div></div>'],
    ['<b>a\n\nb</b>', '<p><b>a</b></p>\n<p>b</p>\n'],
    ['<table><div>a</div><td>b</td></table>', '<table>ab</table>'],
    ['<table>\n\n# a\n\n</table>', '<table>\n</table><h3>a</h3>\n'],
    ['<a href="https://a.test">x<a href="https://b.test">y', null],
  ])('ends no element of the page: %j', (text, html) => {
    const rendered = renderMarkdown(text)
    if (html !== null) expect(rendered.replace(/^<p>|<\/p>\n$/g, '')).toBe(html.replace(/^<p>|<\/p>\n$/g, ''))
    expect(rendered.match(/<a /g)?.length ?? 0).toBe(rendered.match(/<\/a>/g)?.length ?? 0)
  })

  it('limits the nesting of elements', () => {
    expect(renderMarkdown('<div>'.repeat(1000)).match(/<div>/g)).toHaveLength(40)
  })

  it.each([
    '<script>alert(1)</script>',
    '<p onclick="alert(1)" style="x" class="y" id="z">x</p>',
    '<a href="javascript:alert(1)">x</a> <a href="&#106;avascript:alert(1)">x</a>',
    '<a href=" javascript:alert(1)">x</a> <a href="//evil.test">x</a>',
    '<img src="&#x6a;avascript:alert(1)"> <img src="https://evil.test/a.png"> <img src="a.png" alt=\'"onload=\'>',
    '<svg onload=alert(1)><form action=https://evil.test><input></form><iframe src=x></iframe></svg>',
    '<details ontoggle=alert(1) open>x</details>',
    '<p title="<img src=x onerror=alert(1)>">x</p> <img alt="<script>" src="a.png">',
    '<div\n/onclick=alert(1)>x</div><a/href="javascript:alert(1)">x</a>',
    '<a href="svc-file:x">x</a>',
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
