import { describe, expect, it } from 'vitest'
import { cvssSeverity } from '../../../src/packages/osv/cvss.ts'
import { rangesOf } from '../../../src/packages/osv/export-osv.ts'
import { readOsv } from '../../../src/packages/osv/read-osv.ts'

const read = (content: unknown) =>
  readOsv(Buffer.from(typeof content === 'string' ? content : JSON.stringify(content)))

type Event = Record<string, string>

/** A record about acme/lib. */
function aRecord(affected: object, others: object = {}) {
  return {
    id: 'GHSA-1234-5678-9abc',
    modified: '2026-11-01T10:00:00Z',
    summary: 'It leaks',
    affected: [{ package: { ecosystem: 'Packagist', name: 'acme/lib' }, ...affected }],
    ...others,
  }
}

const aRange = (...events: Event[]) => ({ ranges: [{ type: 'ECOSYSTEM', events }] })

describe('readOsv', () => {
  it.each<[string, object, string]>([
    ['all versions', aRange({ introduced: '0' }), '*'],
    ['before a fix', aRange({ introduced: '0' }, { fixed: '1.2.3' }), '<1.2.3'],
    ['from a version on', aRange({ introduced: '1.0' }), '>=1.0'],
    ['up to a version', aRange({ introduced: '1.0' }, { last_affected: '1.4' }), '>=1.0,<=1.4'],
    [
      'two ranges in one list of events, in any order',
      aRange({ introduced: '2.0' }, { fixed: '2.1' }, { fixed: '1.2.3' }, { introduced: '1.0' }),
      '>=1.0,<1.2.3||>=2.0,<2.1',
    ],
    [
      'versions outside of the ranges',
      { ...aRange({ introduced: '2.0' }, { fixed: '2.1' }), versions: ['2.0.5', '1.0.0', 'dev-main', 'x y'] },
      '>=2.0,<2.1||1.0.0||dev-main',
    ],
    ['a limit', aRange({ introduced: '0' }, { limit: '3.0' }), '<3.0'],
    [
      'versions beside commits',
      {
        ranges: [{ type: 'GIT', repo: 'https://git.example.com', events: [{ introduced: '0' }] }],
        versions: ['1.0'],
      },
      '1.0',
    ],
    [
      'the constraint of an export',
      { database_specific: { affected_versions: '!=1.5' }, versions: ['1.0'] },
      '!=1.5',
    ],
  ])('reads %s as a constraint', (_what, affected, constraint) => {
    expect(read(aRecord(affected))).toMatchObject([{ affectedVersions: constraint, problem: null }])
  })

  it.each<[string, object, string]>([
    ['no versions', {}, 'it names no affected versions'],
    [
      'an unreadable range',
      aRange({ introduced: 'first' }),
      'Composer cannot read the versions of its ranges',
    ],
    [
      'too many versions',
      { versions: Array.from({ length: 5001 }, (_, i) => `1.${i}`) },
      'it lists more than 5000 versions',
    ],
    [
      'too long a constraint',
      { versions: Array.from({ length: 900 }, (_, i) => `1.0.${i}`) },
      'its affected versions need more than 4096 characters',
    ],
  ])('says what is wrong with a record with %s', (_what, affected, problem) => {
    expect(read(aRecord(affected))).toMatchObject([{ packageName: 'acme/lib', problem }])
  })

  it('reads title, link, severity, CVE and other ids, and joins the parts about one package', () => {
    const [entry, ...others] = read({
      ...aRecord(aRange({ introduced: '0' }, { fixed: '1.0' })),
      summary: 'First\u202e line\nSecond',
      aliases: ['CVE-2026-1234', 'PKSA-1', 7, 'not an id'],
      published: '2026-10-01T00:00:00Z',
      references: [
        { type: 'WEB', url: 'https://example.com/web' },
        { type: 'ADVISORY', url: 'javascript:alert(1)' },
        { type: 'ADVISORY', url: 'https://example.com/advisory' },
      ],
      database_specific: { severity: 'MODERATE' },
      affected: [
        { package: { ecosystem: 'Packagist:https://a.example.com', name: 'Acme/Lib' }, versions: ['1.0'] },
        { package: { ecosystem: 'npm', name: 'acme/lib' }, versions: ['2.0'] },
        { package: { ecosystem: 'Packagist', name: 'acme/lib' }, versions: ['3.0'] },
      ],
    })
    expect(others).toEqual([])
    expect(entry).toEqual({
      id: 'GHSA-1234-5678-9abc',
      modifiedAt: Date.parse('2026-11-01T10:00:00Z'),
      publishedAt: Date.parse('2026-10-01T00:00:00Z'),
      isWithdrawn: false,
      packageName: 'acme/lib',
      title: 'First line',
      affectedVersions: '1.0||3.0',
      cve: 'CVE-2026-1234',
      link: 'https://example.com/advisory',
      severity: 'medium',
      aliases: ['PKSA-1'],
      problem: null,
    })
  })

  it('reads an array, and a record on each line, and says which line is wrong', () => {
    const record = aRecord({ versions: ['1.0'] })
    expect(read([record, { ...record, id: 'OSV-2' }]).map(({ id }) => id)).toEqual([record.id, 'OSV-2'])
    expect(read(`${JSON.stringify(record)}\n\n${JSON.stringify(record)}\n`)).toHaveLength(2)
    expect(read({ ...record, affected: [] })).toMatchObject([
      { packageName: null, problem: expect.any(String) },
    ])
    expect(read({ ...record, modified: 'yesterday' })).toMatchObject([
      { problem: expect.stringContaining('modified') },
    ])
    for (const [text, reason] of [
      ['', 'empty'],
      ['[1]', 'record 1'],
      [`${JSON.stringify(record)}\nno`, 'line 2'],
      [Array.from({ length: 10_001 }, () => '{}').join('\n'), 'more than 10000 records'],
    ] as const)
      expect(() => read(text)).toThrow(reason)
    expect(() => readOsv(Buffer.from([0x22, 0xff, 0x22]))).toThrow('UTF-8')
  })
})

describe('rangesOf', () => {
  it.each([
    ['*', [[{ introduced: '0' }]]],
    ['<1.2.3', [[{ introduced: '0' }, { fixed: '1.2.3' }]]],
    [
      '>=1.0,<1.2.3||>=2.0,<2.1',
      [
        [{ introduced: '1.0.0' }, { fixed: '1.2.3' }],
        [{ introduced: '2.0.0' }, { fixed: '2.1.0' }],
      ],
    ],
    [
      '^1.2 || <=0.5-beta2',
      [
        [{ introduced: '1.2.0' }, { fixed: '2.0.0' }],
        [{ introduced: '0' }, { last_affected: '0.5.0-beta2' }],
      ],
    ],
    // These are no ranges.
    ['!=1.5', []],
    ['>1.5', []],
    ['1.0.0|dev-main', []],
    ['>=1.0,>=2.0', []],
  ])('describes %s', (constraint, ranges) => {
    expect(rangesOf(constraint)).toEqual(ranges)
  })
})

describe('cvssSeverity', () => {
  // The scores of the examples in the CVSS 3.1 documents.
  it.each([
    ['CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H', 'critical'],
    ['CVSS:3.0/AV:N/AC:L/PR:N/UI:R/S:C/C:L/I:L/A:N', 'medium'],
    ['CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:N/A:N', 'high'],
    ['CVSS:3.1/AV:P/AC:H/PR:H/UI:R/S:U/C:L/I:N/A:N', 'low'],
    ['CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:N', null],
    ['CVSS:3.1/AV:N', null],
    ['CVSS:4.0/AV:N', null],
  ])('of %s is %s', (vector, severity) => {
    expect(cvssSeverity(vector)).toBe(severity)
  })
})
