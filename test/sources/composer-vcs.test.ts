import { describe, expect, it } from 'vitest'
import { useApp } from '../support/app.ts'
import { hasComposer } from '../support/composer-oracle.ts'
import { compareReadings, readWithComposer } from '../support/composer-vcs.ts'
import { packageFiles, sourcesHere, useGitServer } from '../support/git-server.ts'
import { aSource } from '../support/source-actors.ts'

const t = useApp(sourcesHere)
const server = useGitServer()

describe.runIf(hasComposer)('a source and the VcsRepository of Composer', () => {
  it('make the same of a Git repository, besides the documented differences', async () => {
    const git = server.repository('oracle')
    const manifest = {
      description: 'A router',
      type: 'Library',
      license: 'MIT',
      keywords: ['router', 'http'],
      homepage: 'https://acme.example',
      authors: [{ name: 'Alice', email: 'alice@acme.example', role: 'Developer' }],
      support: { issues: 'https://acme.example/issues', source: 'https://git.example.com/acme/router' },
      funding: [{ type: 'github', url: 'https://git.example.com/sponsors/acme' }],
      require: { php: '>=8.1', 'ext-json': '*', 'Acme/Http': '^1.0 || ^2.0' },
      'require-dev': { 'acme/test': 'dev-main as 1.0.0' },
      replace: { 'acme/old-router': 'self.version' },
      provide: { 'acme/routing-implementation': '1.0' },
      conflict: { 'acme/slow': '<1.5' },
      suggest: { 'ext-intl': 'For names in other languages' },
      bin: 'bin/routes',
      'autoload-dev': { 'psr-4': { 'Acme\\Test\\': 'tests/' } },
      scripts: { test: 'phpunit' },
      config: { 'sort-packages': true },
      'minimum-stability': 'dev',
      extra: { 'branch-alias': { 'dev-main': '3.x-dev' }, laravel: { providers: ['Acme\\Provider'] } },
    }
    const files = (changes: Record<string, unknown> = {}) =>
      packageFiles('acme/router', { ...manifest, ...changes })
    git.commit(packageFiles('acme/old-router'), { tag: 'v0.9.0' })
    git.commit(files(), { tag: 'v1.0.0' })
    const tags = ['release-1.1.0', '1.2', 'v1.3.0.1', '1.4.0-beta1', '1.4.0-RC.2', 'v1.5.0-dev', 'nightly']
    for (const tag of [...tags, '1.6.0', 'v1.6.0', '1.7.0-foo', 'V1.8.0', '1.9.0+build.1', '1.9.0+build.2'])
      git.git('tag', tag)
    git.commit(files({ version: '2.0.0' }), { tag: '2.0.1' })
    git.commit(files({ version: '2.1.0-dev' }), { tag: '2.1.0' })
    git.commit(files({ version: 'v2.2' }), { tag: '2.2.0' })
    git.commit(files({ abandoned: true, archive: { exclude: ['/docs'] }, source: { type: 'git' } }), {
      tag: '2.3.0',
    })
    git.commit(files({ time: '2020-02-02' }), { tag: '2.4.0' })
    git.commit(files({ require: { 'acme/broken': 'nope!' } }), { tag: '2.5.0' })
    git.commit({ ...files(), 'composer.json': '{' }, { tag: '2.6.0' })
    git.git('rm', '--quiet', 'composer.json')
    git.commit({}, { tag: '2.7.0' })
    git.commit(files())
    for (const branch of ['1.x', '2.0', 'v3', 'feature/a', 'fix#1', 'a@b']) git.git('branch', branch)
    const source = await aSource(t, { url: git.url })
    await source.read()
    const names = ['acme/router', 'acme/old-router']
    const entries = await Promise.all(
      names.flatMap((name) => [source.entries(name), source.entries(name, { isDev: true })]),
    )
    const { oracle } = readWithComposer({ oracle: git.path }, { oracle: entries.flat() })
    if (!oracle) throw new Error('Composer has read nothing')
    const differences = compareReadings(oracle)
    const missing = differences.filter(({ field }) => field === 'entry')
    expect(missing.flatMap(({ composer }) => (composer as string) ?? []).sort()).toEqual([
      // Not strict Semantic Versions.
      '1.2',
      // Its composer.json says 2.1.0-dev.
      '2.1.0',
      // A constraint could not name them.
      'dev-a@b',
      'dev-fix#1',
      'v1.3.0.1',
    ])
    expect(missing.flatMap(({ svc }) => (svc as string) ?? []).sort()).toEqual([
      '1.5.0-dev',
      // Its composer.json has an incomplete source, of which svc reads nothing.
      '2.3.0',
      'dev-1.7.0-foo',
    ])
    const fields = differences.filter(({ field }) => field !== 'entry')
    const changed = (field: string) => fields.filter((one) => one.field === field)
    expect([...new Set(fields.map(({ field }) => field))].sort()).toEqual([
      'autoload-dev',
      'extra',
      'name',
      'scripts',
      'time',
      'version',
    ])
    expect(changed('name')).toMatchObject([
      { version: '0.9.0.0', composer: 'acme/router', svc: 'acme/old-router' },
    ])
    expect(
      changed('version')
        .map(({ composer, svc }) => [composer, svc].join(' '))
        .sort(),
    ).toEqual(['V1.8.0 1.8.0', 'v0.9.0 0.9.0', 'v1.0.0 1.0.0', 'v2.2 2.2.0'])
    // Only branches have a use for aliases.
    expect(changed('extra').filter(({ version }) => version.endsWith('dev'))).toEqual([])
    for (const { composer, svc } of changed('extra'))
      expect(composer).toEqual({ ...(svc as object), 'branch-alias': manifest.extra['branch-alias'] })
    // Only the root package has a use for these.
    for (const field of ['autoload-dev', 'scripts'])
      for (const { svc } of changed(field)) expect(svc).toBeUndefined()
  })
})
