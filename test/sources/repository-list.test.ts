import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { readRepositoryList } from '../../src/sources/repository-list.ts'

const read = (file: unknown) => readRepositoryList(JSON.stringify(file))
const satisFile = readFileSync(new URL('../fixtures/satis.json', import.meta.url), 'utf8')

describe('a list of repositories', () => {
  it('is a satis.json: its Git repositories are read, and every other entry is named with the reason', () => {
    const list = readRepositoryList(satisFile)
    expect(list.urls).toEqual([
      'https://git.example.com/acme/router.git',
      'ssh://git@git.example.com/acme/mailer',
      'ssh://git@git.example.com:2222/acme/queue.git',
      'https://github.example/acme/theme/',
      'https://gitlab.example.com/acme/php/forms',
      'https://deploy:hunter2@git.example.com/acme/legacy.git',
    ])
    expect(list.skipped.map(({ what, reason }) => `${what}: ${reason}`)).toEqual([
      'packagist.org: it only switches a registry off',
      'composer https://packages.partner.example: it is a Composer registry: add it with svc upstream add, or copy it with svc import',
      'svn https://svn.example.com/acme/reports: a source reads Git only, not "svn"',
      'artifact ./zips: it is a folder of archives: upload them',
      'path ../packages/ui: it is a folder of one machine: push it to a Git server, or upload its archive',
      'mono-repo https://git.example.com/acme/mono.git: it has several packages: add a source for each with svc source add --path',
      'https://git.example.com/acme/untyped.git: it has no type',
      'vcs entry 15: it has no URL',
      'package partner/viewer: it is the metadata of a package without a Git repository: upload its archive',
    ])
  })

  it('names the settings of a satis.json that no source takes over, and not those that ask for nothing', () => {
    expect(readRepositoryList(satisFile).notes).toEqual([
      'Not used: require, blacklist, only. A source publishes every tag and branch: choose with --tags and --branches.',
      'Not used: require-dependencies. Packages of other registries come from upstreams: see svc upstream add.',
      'Not used: abandoned. Mark each package with svc package abandon.',
      'Not used: archive. Every version has an archive that svc makes. For releases only, add --branches "".',
      'Not used: config, options. Name a token with --secret-file, and an SSH key with --ssh-key-file.',
    ])
    expect(read({ repositories: [], 'minimum-stability': 'stable' }).notes).toHaveLength(1)
  })

  it.each([
    ['a list of URLs', ['https://git.example.com/a.git', 'git@git.example.com:b.git']],
    [
      'a list of repositories',
      [
        { type: 'git', url: 'https://git.example.com/a.git' },
        { type: 'vcs', url: 'git@git.example.com:/b.git' },
      ],
    ],
    [
      'an object of repositories by name',
      {
        repositories: {
          'acme/a': { type: 'vcs', url: 'https://git.example.com/a.git' },
          'acme/b': { type: 'bitbucket', url: 'git@git.example.com:b.git' },
        },
      },
    ],
  ])('is %s', (_, file) => {
    expect(read(file)).toEqual({
      urls: ['https://git.example.com/a.git', 'ssh://git@git.example.com/b.git'],
      skipped: [],
      notes: [],
    })
  })

  it.each([
    ['{', 'is not valid JSON'],
    ['"https://git.example.com/a.git"', 'must be a list of URLs'],
    ['{"require-all": true}', 'must be a list of URLs'],
    ['null', 'must be a list of URLs'],
  ])('is refused when it is %s', (text, reason) => {
    expect(() => readRepositoryList(text)).toThrow(reason)
  })

  it('names what is no repository', () => {
    const { urls, skipped } = read({
      repositories: { packagist: false, a: 7, b: null, c: { type: 'x\u001b[1m' } },
    })
    expect(urls).toEqual([])
    expect(skipped).toEqual([
      { what: 'packagist', reason: 'it only switches a registry off' },
      { what: 'a', reason: 'it is neither a URL nor an object' },
      { what: 'b', reason: 'it is neither a URL nor an object' },
      { what: 'x c', reason: 'a source reads Git only, not "x"' },
    ])
  })

  it('has at most as many Git repositories as a repository can have sources', () => {
    const list = (count: number) =>
      Array.from({ length: count }, (_, i) => `https://git.example.com/${i}.git`)
    expect(read(list(1000)).urls).toHaveLength(1000)
    expect(() => read(list(1001))).toThrow('the file has 1001 Git repositories')
  })
})
