import { describe, expect, it } from 'vitest'
import { areaNames, areas, identityWords, registryWords } from '../../src/events/actions.ts'
import { putIntoWords } from '../../src/events/event-words.ts'

describe('the words of an event', () => {
  it.each([
    ['set-member', { username: 'ann', role: 'guest' }, 'gave a role in the repository', 'ann is guest'],
    [
      'set-group-member',
      { username: 'ann', role: 'developer', from: { role: 'guest' } },
      'changed a role in the group',
      'ann: guest → developer',
    ],
    [
      'set-group-member',
      { username: 'ann', role: 'developer', by_invitation: true },
      'joined the group by invitation',
      'ann is developer',
    ],
    [
      'set-group-member',
      { username: 'ann', role: 'admin', provider: 'okta' },
      'gave a role in the group',
      'ann is admin, from the groups of okta',
    ],
    [
      'remove-member',
      { username: 'ann', from: { role: 'admin' } },
      'took away a role in the repository',
      'ann: admin → no role',
    ],
    ['remove-member', { username: 'ann' }, 'took away a role in the repository', 'ann'],
    [
      'change-repository',
      { visibility: 'public', description: '', from: { visibility: 'private', description: 'Our packages' } },
      'changed the settings of the repository',
      'visibility: private → public, description: Our packages → none',
    ],
    [
      'set-group',
      { requires_second_factor: true, from: { requires_second_factor: false } },
      'changed the settings of the group',
      'requires second factor: no → yes',
    ],
    [
      'set-upstream',
      {
        upstream: 'packagist',
        minimumAgeHours: 72,
        allow: ['acme/*'],
        from: { minimumAgeHours: 0, allow: [] },
      },
      'changed the upstream',
      'packagist, minimum age hours: 0 → 72, allow: none → acme/*',
    ],
    [
      'add-publisher',
      {
        publisher: 1,
        provider: 'github',
        issuer: 'https://token.example.com',
        project: 'acme/lib',
        workflow: 'release.yml',
        packages: [],
        right: 'publish',
      },
      'added a trusted publisher',
      'GitHub Actions: acme/lib, release.yml (publish)',
    ],
    [
      'remove-publisher',
      { publisher: 2, provider: 'claims', issuer: 'https://ci.example.com', packages: [], right: 'read' },
      'removed a trusted publisher',
      'CI: https://ci.example.com (read)',
    ],
    ['create-project', { project: 'shop' }, 'created a project', 'shop'],
    [
      'affect-project',
      { project: 'shop', environment: 'production', reason: 'old/library 1.4.0: abandoned', findings: [] },
      'found a problem in a project',
      'shop in production, old/library 1.4.0: abandoned',
    ],
    [
      'deploy-token-expiring',
      { name: 'ci', expires_at: '2026-12-01T10:05:00.000Z', deploy_token: 7 },
      'saw that a deploy token expires soon',
      'ci, expires 1 Dec 2026, 10:05 UTC',
    ],
    ['rename-repository', { from: 'php', to: 'lib' }, 'renamed the repository', 'php → lib'],
    ['delete', { versions: ['1.0.0'], count: 1 }, 'deleted', '1 version'],
    ['quarantine', { reason: 'malware' }, 'quarantined', 'malware'],
    [
      'application-changed',
      { changed: ['logo', 'name'], name: 'New', from: { name: 'Old' } },
      'Application changed',
      'name: Old → New, logo',
    ],
    ['application-changed', { changed: ['logo', 'name'] }, 'Application changed', 'logo name'],
    ['invent-something', {}, 'invent something', ''],
  ])('%s %j', (action, details, said, more) => {
    expect(putIntoWords({ action, details })).toEqual({ said, more })
  })
})

describe('the areas of a filter', () => {
  it('have every action once, except those that an event of the group repeats', () => {
    const all = areaNames.flatMap((area) => [...areas[area].actions])
    const repeated = ['deploy-token-created', 'deploy-token-revoked']
    expect([...all, ...repeated].sort()).toEqual(
      [...Object.keys(identityWords), ...Object.keys(registryWords)].sort(),
    )
  })
})
