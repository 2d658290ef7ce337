import { describe, expect, it } from 'vitest'
import { type Claims, compareClaims, type PublisherTerms, runOf } from '../../src/publishers/providers.ts'

const terms: PublisherTerms = {
  provider: 'github',
  issuer: 'https://token.actions.githubusercontent.com',
  project: 'acme/lib',
  workflow: 'release.yml',
  environment: null,
  workflowProject: null,
  claims: [],
  right: 'publish',
  pins: {},
}

const gitHubClaims: Claims = {
  repository: 'acme/lib',
  repository_id: '17',
  repository_owner_id: '4',
  workflow_ref: 'acme/lib/.github/workflows/release.yml@refs/tags/v1.0.0',
  job_workflow_ref: 'acme/lib/.github/workflows/release.yml@refs/tags/v1.0.0',
  event_name: 'push',
  environment: 'production',
  ref: 'refs/tags/v1.0.0',
  sha: 'c0ffee',
  run_id: '99',
  sub: 'repo:somebody/else:ref:refs/heads/main',
  unknown: { nested: true },
}

const gitLab: PublisherTerms = {
  ...terms,
  provider: 'gitlab',
  issuer: 'https://gitlab.example.com',
  project: 'acme/php/lib',
  workflow: '.gitlab-ci.yml',
}
const gitLabClaims: Claims = {
  project_path: 'acme/php/lib',
  project_id: '20',
  job_project_id: '20',
  namespace_id: '5',
  ci_config_ref_uri: 'gitlab.example.com/acme/php/lib//.gitlab-ci.yml@refs/heads/main',
  ref: 'main',
  ref_path: 'refs/heads/main',
  ref_protected: 'true',
  sha: 'c0ffee',
  pipeline_id: 7,
}

const forgejo: PublisherTerms = {
  ...terms,
  provider: 'forgejo',
  issuer: 'https://codeberg.org/api/actions',
}
const forgejoClaims: Claims = {
  repository: 'acme/lib',
  workflow_ref: 'acme/lib/.forgejo/workflows/release.yml@refs/heads/main',
  event_name: 'push',
  run_number: 3,
}

const general: PublisherTerms = {
  ...terms,
  provider: 'claims',
  issuer: 'https://ci.example.com',
  project: null,
  workflow: null,
  claims: [
    { name: 'pipeline', value: 'acme/lib' },
    { name: 'branch', value: 'release-*' },
  ],
}
const generalClaims: Claims = { pipeline: 'acme/lib', branch: 'release-1' }

const without = (claims: Claims, name: string) =>
  Object.fromEntries(Object.entries(claims).filter(([key]) => key !== name))
const differing = (publisher: PublisherTerms, claims: Claims) =>
  compareClaims(publisher, claims).differs.map(({ claim }) => claim)

describe('a trusted publisher', () => {
  it.each<[string, PublisherTerms, Claims]>([
    ['of GitHub', terms, gitHubClaims],
    ['of GitHub, whose project is compared without case', { ...terms, project: 'Acme/LIB' }, gitHubClaims],
    ['of GitHub with an environment in another case', { ...terms, environment: 'Production' }, gitHubClaims],
    ['of GitHub, with ids as numbers', terms, { ...gitHubClaims, repository_id: 17 }],
    [
      'of GitHub, with the pinned ids',
      { ...terms, pins: { repository_id: '17', repository_owner_id: '4' } },
      { ...gitHubClaims, repository_id: 17 },
    ],
    [
      'of GitHub, with a reusable workflow in its own project',
      terms,
      { ...gitHubClaims, job_workflow_ref: 'acme/lib/.github/workflows/shared.yml@v1' },
    ],
    [
      'of GitHub, with a reusable workflow in the named project',
      { ...terms, workflowProject: 'acme/workflows' },
      { ...gitHubClaims, job_workflow_ref: 'Acme/workflows/.github/workflows/shared.yml@v1' },
    ],
    [
      'of GitHub to read, for a pull request',
      { ...terms, right: 'read' },
      { ...gitHubClaims, event_name: 'pull_request' },
    ],
    [
      'of GitHub to read, for the updates of dependencies that GitHub runs',
      { ...terms, right: 'read', workflow: 'dependabot-updates' },
      {
        ...gitHubClaims,
        workflow_ref: 'acme/lib/dynamic/dependabot/dependabot-updates@refs/heads/main',
        event_name: 'dynamic',
      },
    ],
    [
      'of GitHub with another condition',
      { ...terms, claims: [{ name: 'ref', value: 'refs/tags/*' }] },
      gitHubClaims,
    ],
    ['of GitLab', gitLab, gitLabClaims],
    ['of GitLab without a file', { ...gitLab, workflow: null }, gitLabClaims],
    ['of GitLab, with a boolean', gitLab, { ...gitLabClaims, ref_protected: true }],
    ['of GitLab without job_project_id', gitLab, without(gitLabClaims, 'job_project_id')],
    [
      'of GitLab, with the file of the named project',
      { ...gitLab, workflowProject: 'acme/ci' },
      { ...gitLabClaims, ci_config_ref_uri: 'gitlab.example.com/acme/ci//.gitlab-ci.yml@refs/heads/main' },
    ],
    [
      'of GitLab below a path',
      { ...gitLab, issuer: 'https://example.com/gitlab' },
      {
        ...gitLabClaims,
        ci_config_ref_uri: 'example.com/gitlab/acme/php/lib//.gitlab-ci.yml@refs/heads/main',
      },
    ],
    [
      'of GitLab to read, on a branch that is not protected',
      { ...gitLab, right: 'read' },
      { ...gitLabClaims, ref_protected: 'false' },
    ],
    [
      'of GitLab that accepts every branch',
      { ...gitLab, claims: [{ name: 'ref_protected', value: '*' }] },
      { ...gitLabClaims, ref_protected: 'false' },
    ],
    ['of Forgejo, without ids', forgejo, forgejoClaims],
    ['of Forgejo, with ids', forgejo, { ...forgejoClaims, repository_id: 1, repository_owner_id: 2 }],
    ['of another issuer', general, generalClaims],
  ])('%s trusts its job', (_name, publisher, claims) => {
    expect(compareClaims(publisher, claims)).toMatchObject({ isProject: true, differs: [] })
  })

  it.each<[string, PublisherTerms, Claims, string[]]>([
    ['another repository', terms, { ...gitHubClaims, repository: 'acme/other' }, ['repository']],
    ['a repository that is no text', terms, { ...gitHubClaims, repository: ['acme/lib'] }, ['repository']],
    [
      'a letter that only looks the same',
      { ...terms, project: 'acme/kit' },
      { ...gitHubClaims, repository: 'acme/\u212ait' },
      ['repository', 'workflow_ref', 'job_workflow_ref'],
    ],
    [
      'no repository, although `sub` has it',
      terms,
      { ...without(gitHubClaims, 'repository'), sub: 'repo:acme/lib' },
      ['repository'],
    ],
    [
      'another workflow',
      terms,
      { ...gitHubClaims, workflow_ref: 'acme/lib/.github/workflows/test.yml@refs/heads/main' },
      ['workflow_ref'],
    ],
    [
      'a workflow in another case',
      terms,
      { ...gitHubClaims, workflow_ref: 'acme/lib/.github/workflows/Release.yml@main' },
      ['workflow_ref'],
    ],
    [
      'the workflow of another repository',
      terms,
      { ...gitHubClaims, workflow_ref: 'evil/lib/.github/workflows/release.yml@main' },
      ['workflow_ref'],
    ],
    [
      'a workflow in another folder',
      terms,
      { ...gitHubClaims, workflow_ref: 'acme/lib/.github/workflows/x/release.yml@main' },
      ['workflow_ref'],
    ],
    [
      'a workflow whose ref looks like the file',
      terms,
      { ...gitHubClaims, workflow_ref: 'acme/lib/.github/workflows/x.yml@release.yml@main' },
      ['workflow_ref'],
    ],
    ['no workflow_ref', terms, without(gitHubClaims, 'workflow_ref'), ['workflow_ref']],
    [
      'a reusable workflow of another project',
      terms,
      { ...gitHubClaims, job_workflow_ref: 'evil/x/.github/workflows/a.yml@v1' },
      ['job_workflow_ref'],
    ],
    [
      'a reusable workflow of a project that is not the named one',
      { ...terms, workflowProject: 'acme/workflows' },
      { ...gitHubClaims, job_workflow_ref: 'acme/workflows2/.github/workflows/a.yml@v1' },
      ['job_workflow_ref'],
    ],
    ['another environment', { ...terms, environment: 'staging' }, gitHubClaims, ['environment']],
    [
      'no environment',
      { ...terms, environment: 'staging' },
      without(gitHubClaims, 'environment'),
      ['environment'],
    ],
    [
      'another value of a condition',
      { ...terms, claims: [{ name: 'ref', value: 'refs/heads/*' }] },
      gitHubClaims,
      ['ref'],
    ],
    [
      'another id of the repository',
      { ...terms, pins: { repository_id: '18', repository_owner_id: '4' } },
      gitHubClaims,
      ['repository_id'],
    ],
    [
      'another id of the owner',
      { ...terms, pins: { repository_id: '17', repository_owner_id: '5' } },
      gitHubClaims,
      ['repository_owner_id'],
    ],
    ['no id', terms, without(gitHubClaims, 'repository_id'), ['repository_id']],
    ...['pull_request', 'pull_request_target', 'workflow_run', 'issue_comment'].flatMap(
      (event_name): [string, PublisherTerms, Claims, string[]][] => [
        [`${event_name}, to publish`, terms, { ...gitHubClaims, event_name }, ['event_name']],
        [
          `${event_name}, to stage`,
          { ...terms, right: 'stage' },
          { ...gitHubClaims, event_name },
          ['event_name'],
        ],
      ],
    ),
    [
      'another project of GitLab',
      gitLab,
      { ...gitLabClaims, project_path: 'acme/php/lib2' },
      ['project_path'],
    ],
    [
      'another file of GitLab',
      gitLab,
      { ...gitLabClaims, ci_config_ref_uri: 'gitlab.example.com/acme/php/lib//other.yml@refs/heads/main' },
      ['ci_config_ref_uri'],
    ],
    [
      'the file of another project of GitLab',
      gitLab,
      { ...gitLabClaims, ci_config_ref_uri: 'gitlab.example.com/evil/lib//.gitlab-ci.yml@refs/heads/main' },
      ['ci_config_ref_uri'],
    ],
    [
      'no file of GitLab',
      { ...gitLab, workflow: null },
      { ...gitLabClaims, ci_config_ref_uri: null },
      ['ci_config_ref_uri'],
    ],
    [
      'a job of another project of GitLab',
      gitLab,
      { ...gitLabClaims, job_project_id: '21' },
      ['job_project_id'],
    ],
    [
      'a branch that is not protected',
      gitLab,
      { ...gitLabClaims, ref_protected: 'false' },
      ['ref_protected'],
    ],
    [
      'a branch of which nothing is said',
      { ...gitLab, right: 'stage' },
      without(gitLabClaims, 'ref_protected'),
      ['ref_protected'],
    ],
    [
      'another id of the project',
      { ...gitLab, pins: { project_id: '21', namespace_id: '5' } },
      gitLabClaims,
      ['project_id'],
    ],
    [
      'another id of the namespace',
      { ...gitLab, pins: { project_id: '20', namespace_id: '6' } },
      gitLabClaims,
      ['namespace_id'],
    ],
    [
      'another repository of Forgejo',
      forgejo,
      { ...forgejoClaims, repository: 'acme/other' },
      ['repository'],
    ],
    [
      'an id of Forgejo that is missing now',
      { ...forgejo, pins: { repository_id: '1' } },
      forgejoClaims,
      ['repository_id'],
    ],
    ['another pipeline', general, { ...generalClaims, pipeline: 'acme/lib2' }, ['pipeline']],
    ['another branch', general, { ...generalClaims, branch: 'main' }, ['branch']],
  ])('refuses %s', (_name, publisher, claims, expected) => {
    expect(differing(publisher, claims)).toEqual(expected)
  })

  it('tells another project from another difference', () => {
    const isProject = (publisher: PublisherTerms, claims: Claims) =>
      compareClaims(publisher, claims).isProject
    expect(isProject(terms, { ...gitHubClaims, repository: 'acme/other' })).toBe(false)
    expect(isProject(terms, { ...gitHubClaims, event_name: 'workflow_run' })).toBe(true)
    expect(isProject(general, { ...generalClaims, pipeline: 'acme/other' })).toBe(false)
    expect(isProject(general, { ...generalClaims, branch: 'main' })).toBe(true)
  })

  it.each(['repository', 'project_path', 'project', 'project_id', 'pipeline_id'])(
    'takes %s for the project of another CI, in whatever order the claims come',
    (name) => {
      const claims = [
        { name: 'ref', value: 'refs/heads/main' },
        { name, value: 'acme/lib' },
      ]
      for (const ordered of [claims, claims.toReversed()]) {
        const publisher = { ...general, claims: ordered }
        const given = { ref: 'refs/heads/main', [name]: 'evil/lib' }
        expect(compareClaims(publisher, given).isProject).toBe(false)
        expect(compareClaims(publisher, { ...given, ref: 'x', [name]: 'acme/lib' }).isProject).toBe(true)
        expect(runOf(publisher, given).project).toBe('evil/lib')
      }
    },
  )

  it('takes the name of a project before its id, and that before other ids', () => {
    const named = ['pipeline_id', 'project_id', 'project'].map((name) => ({ name, value: 'acme' }))
    for (const [from, name] of ['project', 'project_id', 'pipeline_id'].entries()) {
      const publisher = { ...general, claims: named.slice(0, named.length - from) }
      expect(runOf(publisher, { [name]: 'x' }).project).toBe('x')
    }
  })

  it('is no project of another CI without a claim that names one', () => {
    const publisher = { ...general, claims: [{ name: 'ref', value: 'refs/heads/main' }] }
    expect(compareClaims(publisher, { ref: 'refs/heads/main' }).isProject).toBe(false)
  })

  it('names the ids of the project', () => {
    expect(compareClaims(terms, gitHubClaims).pins).toEqual({ repository_id: '17', repository_owner_id: '4' })
    expect(compareClaims(gitLab, gitLabClaims).pins).toEqual({ project_id: '20', namespace_id: '5' })
    expect(compareClaims(forgejo, forgejoClaims).pins).toEqual({})
  })
})

describe('the job of a token', () => {
  it.each<[string, PublisherTerms, Claims, (string | null)[]]>([
    [
      'GitHub',
      terms,
      gitHubClaims,
      [
        'acme/lib',
        'release.yml',
        'refs/tags/v1.0.0',
        'c0ffee',
        'https://github.com/acme/lib/actions/runs/99',
      ],
    ],
    [
      'GitLab',
      gitLab,
      gitLabClaims,
      [
        'acme/php/lib',
        '.gitlab-ci.yml',
        'refs/heads/main',
        'c0ffee',
        'https://gitlab.example.com/acme/php/lib/-/pipelines/7',
      ],
    ],
    [
      'Forgejo',
      forgejo,
      forgejoClaims,
      ['acme/lib', 'release.yml', null, null, 'https://codeberg.org/acme/lib/actions/runs/3'],
    ],
    ['another issuer', general, generalClaims, ['acme/lib', null, null, null, null]],
    [
      'an enterprise',
      { ...terms, issuer: 'https://token.actions.acme.ghe.com' },
      gitHubClaims,
      [
        'acme/lib',
        'release.yml',
        'refs/tags/v1.0.0',
        'c0ffee',
        'https://acme.ghe.com/acme/lib/actions/runs/99',
      ],
    ],
    [
      'a run that is no number',
      terms,
      { ...gitHubClaims, run_id: '9"><script>' },
      ['acme/lib', 'release.yml', 'refs/tags/v1.0.0', 'c0ffee', null],
    ],
  ])('has a link to its run: %s', (_name, publisher, claims, expected) => {
    const { project, workflow, ref, commit, url } = runOf(publisher, claims)
    expect([project, workflow, ref, commit, url]).toEqual(expected)
  })
})
