import { describe, expect, it } from 'vitest'
import { changelogBetween } from '../../src/packages/changelog.ts'

describe('the part of a changelog between two versions', () => {
  const keptChangelog = `# Changelog

## [Unreleased]
### Added
- Nothing

## [1.2.0] - 2026-03-01
### Added
- Two
\`\`\`
## 1.0.0
\`\`\`

## [1.1.0] - 2026-02-01
- One

## [1.0.0] - 2026-01-01
- Zero

[1.2.0]: https://acme.test/1.2.0
[1.0.0]: https://acme.test/1.0.0
`

  it('begins after the older one, ends with the newer one, and keeps its links', () => {
    expect(changelogBetween(keptChangelog, '1.0.0.0', '1.1.0.0')).toBe('# [1.1.0] - 2026-02-01\n- One')
    expect(changelogBetween(keptChangelog, '1.0.0.0', '1.2.0.0')).toBe(`# [1.2.0] - 2026-03-01
## Added
- Two
\`\`\`
## 1.0.0
\`\`\`

# [1.1.0] - 2026-02-01
- One

[1.2.0]: https://acme.test/1.2.0`)
  })

  it.each([
    ['## v1.1.0 (2 January)', '# v1.1.0 (2 January)'],
    ['### Release 1.1', '# Release 1.1'],
    ['1.1.0 - 2 January\n=================', '# 1.1.0 - 2 January'],
    ['1.1.0\n-----', '# 1.1.0'],
    ['## [v1.1.0](https://acme.test/v1.1.0)', '# [v1.1.0](https://acme.test/v1.1.0)'],
    ['# 1.1.0:', '# 1.1.0:'],
  ])('reads the heading %j', (heading, shown) => {
    const old = heading.replaceAll('1.1', '1.0')
    const text = `# Changes of Acme\n\n${heading}\n\n#### Fixed\n\na\n\n${old}\n\nold`
    expect(changelogBetween(text, '1.0.0.0', '1.1.0.0')).toBe(`${shown}\n\n## Fixed\n\na`)
  })

  it('is null when the changelog does not name the versions, and for development versions', () => {
    expect(changelogBetween(keptChangelog, '1.2.0.0', '1.3.0.0')).toBeNull()
    expect(changelogBetween('# Changes\n\nIn 1.1.0: a lot', '1.0.0.0', '1.1.0.0')).toBeNull()
    expect(changelogBetween(keptChangelog, '1.0.0.0', 'dev-main')).toBeNull()
    expect(changelogBetween('', '1.0.0.0', '1.1.0.0')).toBeNull()
  })
})
