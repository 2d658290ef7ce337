import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import MarkdownIt from 'markdown-it'
import { describe, expect, it } from 'vitest'
import { projectRoot } from '../../src/config.ts'
import { renderDocsPage } from '../../src/web/pages/docs.ts'

const read = (path: string) => readFile(join(projectRoot, path), 'utf8')

describe('the Markdown files of the project', async () => {
  const inDocs = await readdir(join(projectRoot, 'docs'), { recursive: true })
  const paths = [...(await readdir(projectRoot)), ...inDocs.map((path) => `docs/${path}`)].filter((path) =>
    path.endsWith('.md'),
  )

  it.each(paths)('%s: every relative link leads to a file, and to a heading in it', async (path) => {
    const broken: string[] = []
    for (const link of listLinks(await read(path))) {
      const [file = '', anchor] = link.split('#')
      const target = file === '' ? path : posix.join(posix.dirname(path), file)
      if (!existsSync(join(projectRoot, target))) broken.push(link)
      else if (anchor !== undefined && !listAnchors(await read(target)).includes(anchor)) broken.push(link)
    }
    expect(broken).toEqual([])
  })

  it('are linked from another one, so that readers find them', async () => {
    const linked = new Set<string>()
    for (const path of paths) {
      for (const link of listLinks(await read(path))) {
        linked.add(posix.join(posix.dirname(path), link.split('#')[0] ?? ''))
      }
    }
    const known = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md']
    expect(paths.filter((path) => !linked.has(path) && !known.includes(path))).toEqual([])
  })
})

/** Lists the links and images of a Markdown text that lead to files or headings of the project. */
function listLinks(text: string): string[] {
  const inline = new MarkdownIt().parse(text, {}).flatMap(({ children }) => children ?? [])
  return inline
    .flatMap((token) => token.attrGet('href') ?? token.attrGet('src') ?? [])
    .map((link) => decodeURI(String(link)))
    .filter((link) => !/^(?:[a-z]+:|\/)/.test(link))
}

function listAnchors(text: string): string[] {
  const { html } = renderDocsPage('x.md', text)
  return [...html.matchAll(/<h\d id="([^"]+)"/g)].map(([, id]) => id ?? '')
}
