import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import {
  installWorkflow,
  publishWorkflow,
  type WorkflowProvider,
  type WorkflowTarget,
} from '../../src/publishers/workflows.ts'
import { aRepository } from '../support/actors.ts'
import { issuersHere, useCiIssuer } from '../support/ci-issuer.ts'
import { hasComposerClient } from '../support/composer-project.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { aTrustedPublisher, jobClaims } from '../support/publisher-actors.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { aSigstore, jobWords, statementAbout } from '../support/sigstore.ts'

const port = await freePort()
const sigstore = await aSigstore()
const t = useListeningApp(port, { ...issuersHere, TRUSTED_ROOT_FILE: sigstore.rootFile })
const ci = useCiIssuer()

/** What a job of each CI has in its identity token. */
const claimsOf: Record<WorkflowProvider, () => Record<string, unknown>> = {
  github: () => jobClaims,
  forgejo: () => ({ ...jobClaims, workflow_ref: 'acme/lib/.forgejo/workflows/release.yml@refs/tags/v1.2.3' }),
  gitlab: () => ({
    project_path: 'acme/lib',
    project_id: '20',
    namespace_id: '5',
    ci_config_ref_uri: `${new URL(ci.issuer).host}/acme/lib//.gitlab-ci.yml@refs/tags/v1.2.3`,
    ref_protected: 'true',
  }),
}

/** The endpoint where jobs of GitHub and Forgejo ask for their identity token. */
let tokenEndpoint: Server
let jobsClaims: Record<string, unknown> = {}
const jobSecret = 'the secret of the job'

beforeAll(async () => {
  tokenEndpoint = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://ci')
    const isJob = request.headers.authorization === `Bearer ${jobSecret}`
    if (!isJob || searchParams.get('api-version') !== '2.0') {
      response.writeHead(401).end()
      return
    }
    void ci
      .sign({ ...jobsClaims, aud: searchParams.get('audience') })
      .then((value) => response.end(JSON.stringify({ count: value.length, value })))
  })
  await new Promise<void>((done) => tokenEndpoint.listen(0, '127.0.0.1', done))
})
afterAll(() => tokenEndpoint.close())

interface Job {
  permissions?: Record<string, string>
  'enable-openid-connect'?: boolean
  id_tokens?: { IDENTITY: { aud: string } }
  environment?: string
  script?: string[]
  steps?: {
    name?: string
    uses?: string
    run?: string
    with?: Record<string, string>
    env?: Record<string, string>
  }[]
}

/** Runs the shell steps of the only job of a workflow in a folder, as its CI does. */
async function runJob(
  provider: WorkflowProvider,
  yaml: string,
  folder: string,
  outputs: Record<string, string> = {},
) {
  const workflow = parse(yaml) as Record<string, Job> & { jobs: Record<string, Job> }
  const [job] = Object.values(provider === 'gitlab' ? workflow : workflow.jobs) as [Job]
  jobsClaims = claimsOf[provider]()
  const { port: endpointPort } = tokenEndpoint.address() as AddressInfo
  const environment =
    provider === 'gitlab'
      ? {
          CI_COMMIT_TAG: 'v1.2.3',
          IDENTITY: await ci.sign({ ...jobsClaims, aud: job.id_tokens?.IDENTITY.aud }),
        }
      : {
          GITHUB_REF_NAME: 'v1.2.3',
          ACTIONS_ID_TOKEN_REQUEST_TOKEN: jobSecret,
          ACTIONS_ID_TOKEN_REQUEST_URL: `http://127.0.0.1:${endpointPort}/token?api-version=2.0`,
        }
  const commands = job.script ?? (job.steps ?? []).flatMap(({ run }) => (run === undefined ? [] : [run]))
  const env = {
    PATH: process.env['PATH'],
    HOME: folder,
    COMPOSER_ALLOW_SUPERUSER: '1',
    ...environment,
    ...outputs,
  }
  const [shell, ...options] =
    provider === 'gitlab' ? (['sh', '-e', '-c'] as const) : (['bash', '-e', '-o', 'pipefail', '-c'] as const)
  const child = spawn(shell, [...options, commands.join('\n')], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { job, code, output: out + err }
}

const folders: string[] = []
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true })
})

/** A Git repository with a package, at a tag. */
function aProject(composerJson: object): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-job-'))
  folders.push(folder)
  writeFileSync(join(folder, 'composer.json'), JSON.stringify(composerJson))
  const git = (...words: string[]) => execFileSync('git', words, { cwd: folder, stdio: 'pipe' })
  git('init', '--quiet')
  git('add', 'composer.json')
  git('-c', 'user.name=t', '-c', 'user.email=t@example.com', 'commit', '--quiet', '--message=first')
  return folder
}

async function aTrustedProject(
  provider: WorkflowProvider,
  right: 'publish' | 'stage' | 'read',
  workflow = provider === 'gitlab' ? null : 'release.yml',
) {
  const repository = await aRepository(t.db)
  await aTrustedPublisher(t, ci, repository, { provider, right, workflow })
  const target: WorkflowTarget = {
    provider,
    workflow: null,
    environment: null,
    packageName: 'acme/lib',
    right: right === 'stage' ? 'stage' : 'publish',
    authUrl: t.config.authUrl,
    registryUrl: `${t.config.baseUrl}/${repository.path}/-/packages/`,
  }
  return { repository, target }
}

const providers: WorkflowProvider[] = ['github', 'gitlab', 'forgejo']

describe('the workflow that publishes', () => {
  it.each(providers)('of %s publishes a tag without a secret', async (provider) => {
    const { target } = await aTrustedProject(provider, 'publish')
    const { file, text: yaml } = publishWorkflow(target)
    const { job, code, output } = await runJob(provider, yaml, aProject({ name: 'acme/lib' }))
    expect([code, output]).toEqual([0, expect.stringContaining('"version":"1.2.3"')])
    expect(file).toBe(
      {
        github: '.github/workflows/release.yml',
        gitlab: '.gitlab-ci.yml',
        forgejo: '.forgejo/workflows/release.yml',
      }[provider],
    )
    if (provider === 'github') expect(job.permissions).toEqual({ contents: 'read', 'id-token': 'write' })
    if (provider === 'forgejo') expect(job['enable-openid-connect']).toBe(true)
  })

  it('stages a version when the publisher may do no more', async () => {
    const { target } = await aTrustedProject('github', 'stage')
    const { text: yaml } = publishWorkflow(target)
    const { code, output } = await runJob('github', yaml, aProject({ name: 'acme/lib' }))
    expect([code, output]).toEqual([0, expect.stringContaining('"status":"staged"')])
  })

  it('sends the attestation that a step has made, if it is to attest', async () => {
    const { repository, target } = await aTrustedProject('github', 'publish')
    const { text: yaml } = publishWorkflow({ ...target, attests: true })
    const folder = aProject({ name: 'acme/lib' })
    // The archive of a commit always has the same bytes.
    execFileSync('git', ['archive', '--format=zip', '--output=package.zip', 'HEAD'], { cwd: folder })
    const bundle = join(folder, 'bundle.json')
    const statement = statementAbout(readFileSync(join(folder, 'package.zip')))
    writeFileSync(bundle, JSON.stringify(await sigstore.sign(statement, jobWords(ci.issuer))))
    const { job, code, output } = await runJob('github', yaml, folder, { BUNDLE: bundle })
    expect([code, output]).toEqual([0, expect.stringContaining('"version":"1.2.3"')])
    expect(job.permissions).toEqual({ contents: 'read', 'id-token': 'write', attestations: 'write' })
    const [, , attest, publish] = job.steps ?? []
    expect(attest).toMatchObject({
      id: 'attest',
      uses: expect.stringMatching(/^actions\/attest-build-provenance@/),
      with: { 'subject-path': 'package.zip' },
    })
    expect(publish?.env).toEqual({ BUNDLE: `\${{ steps.attest.outputs.bundle-path }}` })
    const { ask } = await aPublisher(t, { repository })
    const provenance = await ask('integrity/acme/lib/1.2.3/provenance')
    expect(provenance.json().attestation_bundles[0].attestations).toHaveLength(1)
  })

  it('shows in the job which claim differs, and ends it', async () => {
    const { target } = await aTrustedProject('github', 'publish', 'other.yml')
    const { code, output } = await runJob(
      'github',
      publishWorkflow(target).text,
      aProject({ name: 'acme/lib' }),
    )
    expect([code, output]).toEqual([1, expect.stringContaining('workflow_ref')])
  })

  it('names the environment of the publisher', async () => {
    const { target } = await aTrustedProject('github', 'publish')
    for (const provider of providers) {
      const { text: yaml } = publishWorkflow({ ...target, provider, environment: 'production: "eu"' })
      const workflow = parse(yaml) as Record<string, Job> & { jobs: Record<string, Job> }
      const [job] = Object.values(provider === 'gitlab' ? workflow : workflow.jobs)
      expect(job?.environment).toBe('production: "eu"')
    }
  })
})

describe.runIf(hasComposerClient)('the workflow that installs', () => {
  it.each(providers)('of %s installs with a token that can only read', async (provider) => {
    const { repository, target } = await aTrustedProject(provider, 'read')
    const { push } = await aPublisher(t, { repository })
    expect((await push('1.0.0')).statusCode).toBe(201)
    const folder = aProject({
      name: 'my/project',
      repositories: [{ type: 'composer', url: target.registryUrl }, { 'packagist.org': false }],
      require: { 'acme/lib': '1.0.0' },
      config: { 'secure-http': false },
    })
    const { code, output } = await runJob(provider, installWorkflow(target).text, folder)
    expect([code, output]).toEqual([0, expect.stringContaining('Installing acme/lib (1.0.0)')])
  })
})
