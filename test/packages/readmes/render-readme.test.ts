import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { openReadmeRenderer, renderReadmesJob } from '../../../src/packages/readmes/render-readme.ts'
import { aCaller } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { outdateReadmes, readmeRows } from '../../support/package-rows.ts'
import { aZip } from '../../support/zip.ts'

describe('openReadmeRenderer', () => {
  const readmes = openReadmeRenderer()
  afterAll(readmes.close)
  const markdown = (text: string) => readmes.render({ text, isMarkdown: true })

  it('makes HTML of Markdown, shows other text as it is, and knows versions without a README', async () => {
    expect(await markdown('# Lib\r\n\r\nred\u001b[31m\u0000\u202e')).toEqual({
      format: 'html',
      content: '<h3>Lib</h3>\n<p>red</p>\n',
    })
    expect(await readmes.render({ text: '# Lib\u0000\ud800', isMarkdown: false })).toEqual({
      format: 'text',
      content: '# Lib',
    })
    expect(await readmes.render(null)).toEqual({ format: 'none', content: '' })
  })

  it('shows a README as text when its HTML would be too large', async () => {
    const long = `[a]: http://${'x'.repeat(2000)}\n\n${'[a] '.repeat(15_000)}`
    expect(await markdown(long)).toEqual({ format: 'text', content: long })
    expect((await markdown('*fine*')).format).toBe('html')
  })

  it('shows code without colours when they would make the page too large', async () => {
    const code = (count: number) => ({
      text: `\`\`\`json\n${'[1],'.repeat(count)}\n\`\`\``,
      isMarkdown: true,
    })
    expect((await readmes.render(code(100))).content).toContain('class="hljs-')
    const { format, content } = await readmes.render(code(4000))
    expect(format).toBe('html')
    expect(content).not.toContain('class="hljs-')
  })

  it('does not mix READMEs that are rendered at once', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => markdown(`*${i}*`)))
    expect(all.map(({ content }) => content)).toEqual(all.map((_, i) => `<p><em>${i}</em></p>\n`))
  })
})

describe('the README of a version', () => {
  const t = useApp()
  const payload = aZip({ 'composer.json': JSON.stringify({ name: 'acme/lib' }), 'README.md': '# Lib' })
  const stored = () => readmeRows(t.db)

  it('is stored with the version, and removed with it', async () => {
    const { push, call } = await aCaller(t)
    await push('1.0.0', { payload })
    expect(await stored()).toMatchObject([{ format: 'html', content: '<h3>Lib</h3>\n' }])
    await call('DELETE', '/packages/acme/lib/1.0.0?purge=true')
    expect(await stored()).toEqual([])
    await push('1.1.0')
    expect(await stored()).toMatchObject([{ format: 'none', content: '' }])
    await call('DELETE', '/packages/acme/lib?purge=true')
    expect(await stored()).toEqual([])
  })

  it('of an earlier release is rendered again by a job, and kept if its archive is missing', async () => {
    const { push, repository } = await aCaller(t)
    const versions = [
      ['1.0.0', '# One'],
      ['1.1.0', '# Two'],
    ] as const
    const hashes: string[] = []
    for (const [version, readme] of versions) {
      const files = { 'composer.json': JSON.stringify({ name: 'acme/lib' }), 'README.md': readme }
      hashes.push((await push(version, { payload: aZip(files) })).json().sha256)
    }
    await outdateReadmes(t.db)
    const [first = ''] = hashes
    await rm(join(t.config.dataDir, 'archives', first.slice(0, 2), `${first}.zip`))
    const { db, config, app } = t
    await renderReadmesJob.run({ db, config, log: app.log }, {}, new AbortController().signal)
    expect(await readmeRows(t.db, repository)).toMatchObject([
      { content: '<h3>Old</h3>', rendering: 0 },
      { content: '<h3>Two</h3>\n', rendering: 3 },
    ])
  })
})
