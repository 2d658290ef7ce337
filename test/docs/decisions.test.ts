import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const folder = new URL('../../docs/decisions/', import.meta.url)
const read = (name: string) => readFileSync(new URL(name, folder), 'utf8')
const pages = readdirSync(folder).filter((name) => name !== 'README.md')

describe('docs/decisions/', () => {
  it.each(pages)('%s has one decision with its date, its context and what was rejected', (name) => {
    const [title = '', date = '', ...rest] = read(name).split('\n\n')
    expect(title).toMatch(/^# \w.+[^.]$/)
    expect(date).toMatch(/^Decided on 20\d\d-\d\d-\d\d\.$/)
    const headings = rest.filter((part) => part.startsWith('#'))
    expect(headings).toEqual(['## Context', '## Decision', '## Rejected'])
    for (const heading of headings) expect(rest[rest.indexOf(heading) + 1]).toMatch(/\w.+\.\n?$/s)
  })

  it('has an index with the title and the date of every page', () => {
    const rows = [...read('README.md').matchAll(/^\| \[(.+)\]\((.+)\) \| (.+) \|$/gm)]
    const listed = rows.map(([, title, name, date]) => `${name}: ${title}, ${date}`)
    const expected = pages.map((name) => {
      const [title = '', date = ''] = read(name).split('\n\n')
      return `${name}: ${title.slice(2)}, ${date.slice('Decided on '.length, -1)}`
    })
    expect(listed.toSorted()).toEqual(expected.toSorted())
  })
})
