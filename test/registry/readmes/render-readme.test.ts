import { afterAll, describe, expect, it } from 'vitest'
import { openReadmeRenderer } from '../../../src/registry/readmes/render-readme.ts'
import { aCaller } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
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

  it('shows as text what would become too large', async () => {
    const long = `[a]: http://${'x'.repeat(2000)}\n\n${'[a] '.repeat(15_000)}`
    expect(await markdown(long)).toEqual({ format: 'text', content: long })
    expect((await markdown('*fine*')).format).toBe('html')
  })

  it('keeps READMEs apart that are rendered at once', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => markdown(`*${i}*`)))
    expect(all.map(({ content }) => content)).toEqual(all.map((_, i) => `<p><em>${i}</em></p>\n`))
  })
})

describe('the README of a version', () => {
  const t = useApp()
  const payload = aZip({ 'composer.json': JSON.stringify({ name: 'acme/lib' }), 'README.md': '# Lib' })
  const stored = async () => (await t.db.query('select format, content from version_readme')).rows

  it('is stored with the version, and removed with it', async () => {
    const { push, call } = await aCaller(t)
    await push('1.0.0', { payload })
    expect(await stored()).toEqual([{ format: 'html', content: '<h3>Lib</h3>\n' }])
    await call('DELETE', '/packages/acme/lib/1.0.0?purge=true')
    expect(await stored()).toEqual([])
    await push('1.1.0')
    expect(await stored()).toEqual([{ format: 'none', content: '' }])
    await call('DELETE', '/packages/acme/lib?purge=true')
    expect(await stored()).toEqual([])
  })
})
