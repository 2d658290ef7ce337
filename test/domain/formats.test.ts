import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { projectRoot } from '../../src/config.ts'
import { formatCount, formatNumber } from '../../src/domain/formats.ts'

describe('formatNumber', () => {
  it.each([
    [0, '0'],
    [999, '999'],
    [1200, '1,200'],
    [1234567, '1,234,567'],
  ])('writes %d as %s', (number, text) => {
    expect(formatNumber(number)).toBe(text)
  })

  it('is the only place that formats numbers for people, with the short numbers of badges', () => {
    const formats = /toLocaleString\(|NumberFormat\(/
    const files = ['src', 'views'].flatMap((folder) =>
      readdirSync(resolve(projectRoot, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => /\.(?:ts|eta)$/.test(name))
        .map((name) => `${folder}/${name}`),
    )
    expect(files.length).toBeGreaterThan(500)
    const found = files.filter((file) => formats.test(readFileSync(resolve(projectRoot, file), 'utf8')))
    expect(found.toSorted()).toEqual(['src/domain/formats.ts', 'src/web/pages/package/package-badge.ts'])
  })
})

describe('formatCount', () => {
  it.each([
    [formatCount(0, 'package'), '0 packages'],
    [formatCount(1, 'package'), '1 package'],
    [formatCount(1200, 'package'), '1,200 packages'],
    [formatCount(1, 'repository', 'repositories'), '1 repository'],
    [formatCount(1200, 'repository', 'repositories'), '1,200 repositories'],
  ])('writes %s', (written, text) => {
    expect(written).toBe(text)
  })
})
