import type { PublisherProvider } from './providers.ts'

/** The providers whose workflows are known. */
export type WorkflowProvider = Exclude<PublisherProvider, 'claims'>

/** What a workflow is written for. */
export interface WorkflowTarget {
  provider: WorkflowProvider
  /** The file of the workflow as the trusted publisher names it. Null takes the usual name. */
  workflow: string | null
  environment: string | null
  /** Such as `acme/lib`. */
  packageName: string
  /** `stage`: a developer releases the version afterwards. */
  right: 'publish' | 'stage'
  /** The audience of identity tokens, and where they are exchanged. */
  authUrl: string
  /** The registry of the repository, with a slash at its end. */
  registryUrl: string
  /** Whether a job of GitHub also attests where the archive comes from. The default is false. */
  attests?: boolean
}

/** A file for a project. `text` is YAML. */
export interface Workflow {
  file: string
  text: string
}

const usualFiles = {
  publish: { github: 'release.yml', gitlab: '.gitlab-ci.yml', forgejo: 'release.yml' },
  install: { github: 'test.yml', gitlab: '.gitlab-ci.yml', forgejo: 'test.yml' },
} as const
const folders = { github: '.github/workflows/', gitlab: '', forgejo: '.forgejo/workflows/' } as const

/** Returns the workflow that publishes a tag such as `v1.2.3` of a project as version 1.2.3. */
export function publishWorkflow(target: WorkflowTarget): Workflow {
  const { provider, workflow, environment, packageName, right, registryUrl } = target
  const attests = provider === 'github' && target.attests === true
  const tag = provider === 'gitlab' ? 'CI_COMMIT_TAG' : 'GITHUB_REF_NAME'
  const pack = 'git archive --format=zip --output=package.zip HEAD'
  const body = attests
    ? '--form package=@package.zip --form "attestations=<$BUNDLE"'
    : '--upload-file package.zip'
  const upload = [
    `curl --silent --show-error --fail-with-body --user "svc:$TOKEN" ${body} \\`,
    `  "${registryUrl}${right === 'stage' ? 'stage' : 'upload'}/${packageName}/\${${tag}#v}"`,
  ]
  const script = [...tokenSteps(target), ...(attests ? [] : [pack]), ...upload]
  const file = folders[provider] + (workflow ?? usualFiles.publish[provider])
  if (provider === 'gitlab') {
    return {
      file,
      text: lines(
        'publish:',
        '  image: composer:2',
        '  rules:',
        '    - if: $CI_COMMIT_TAG',
        ...(environment === null ? [] : [`  environment: ${quoted(environment)}`]),
        ...gitlabJob(target, script),
      ),
    }
  }
  return {
    file,
    text: lines(
      'name: Release',
      'on:',
      '  push:',
      "    tags: ['v*']",
      'jobs:',
      '  publish:',
      ...(environment === null ? [] : [`    environment: ${quoted(environment)}`]),
      ...(attests
        ? attestingJob(pack, script)
        : actionsJob(provider, [{ name: 'Publish', lines: runLines(script) }])),
    ),
  }
}

/** Returns the workflow that installs a project's dependencies, with a token that can only read. */
export function installWorkflow(target: WorkflowTarget): Workflow {
  const { provider, registryUrl } = target
  const script = [
    ...tokenSteps(target),
    `composer config --global http-basic.${new URL(registryUrl).host} svc "$TOKEN"`,
    'composer install --no-interaction',
  ]
  const file = folders[provider] + usualFiles.install[provider]
  if (provider === 'gitlab')
    return { file, text: lines('test:', '  image: composer:2', ...gitlabJob(target, script)) }
  return {
    file,
    text: lines(
      'name: Test',
      'on: [push, pull_request]',
      'jobs:',
      '  test:',
      ...actionsJob(provider, [{ name: 'Install', lines: runLines(script) }]),
    ),
  }
}

/** The shell commands that exchange the identity token of the job. They leave a token of 15 minutes in `TOKEN`. */
function tokenSteps({ provider, authUrl, registryUrl }: WorkflowTarget): string[] {
  const get =
    provider === 'gitlab'
      ? []
      : [
          `IDENTITY=$(curl --silent --show-error --fail --get --data-urlencode "audience=${authUrl}" \\`,
          '  --header "Authorization: Bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN" "$ACTIONS_ID_TOKEN_REQUEST_URL" |',
          String.raw`  sed -n 's/.*"value" *: *"\([^"]*\)".*/\1/p')`,
        ]
  return [
    ...get,
    'RESPONSE=$(curl --silent --show-error --fail-with-body \\',
    '  --data-urlencode "grant_type=urn:ietf:params:oauth:grant-type:token-exchange" \\',
    '  --data-urlencode "subject_token_type=urn:ietf:params:oauth:token-type:id_token" \\',
    '  --data-urlencode "subject_token=$IDENTITY" \\',
    `  --data-urlencode "resource=${registryUrl}" \\`,
    `  "${authUrl}/oauth2/token") || { echo "$RESPONSE"; exit 1; }`,
    String.raw`TOKEN=$(echo "$RESPONSE" | sed -n 's/.*"access_token":"\([^"]*\)".*/\1/p')`,
    ...(provider === 'gitlab' ? [] : ['echo "::add-mask::$TOKEN"']),
  ]
}

/** A step of a job of GitHub or Forgejo. `lines` are its other members. */
interface Step {
  name: string
  lines: readonly string[]
}

function actionsJob(
  provider: 'github' | 'forgejo',
  steps: readonly Step[],
  permissions: readonly string[] = [],
): string[] {
  const rights =
    provider === 'github'
      ? ['    runs-on: ubuntu-latest', '    permissions:', '      contents: read', '      id-token: write']
      : ['    runs-on: docker', '    enable-openid-connect: true']
  return [
    ...rights,
    ...permissions.map((line) => `      ${line}`),
    '    steps:',
    '      - uses: actions/checkout@v4',
    ...steps.flatMap(({ name, lines: all }) => [
      `      - name: ${name}`,
      ...all.map((line) => `        ${line}`),
    ]),
  ]
}

/** The job of GitHub that signs a statement about the archive before it uploads both. */
function attestingJob(pack: string, script: readonly string[]): string[] {
  const attest = [
    'id: attest',
    'uses: actions/attest-build-provenance@v3',
    'with:',
    '  subject-path: package.zip',
  ]
  const environment = ['env:', `  BUNDLE: \${{ steps.attest.outputs.bundle-path }}`]
  return actionsJob(
    'github',
    [
      { name: 'Pack', lines: [`run: ${pack}`] },
      { name: 'Attest', lines: attest },
      { name: 'Publish', lines: [...environment, ...runLines(script)] },
    ],
    ['attestations: write'],
  )
}

function runLines(script: readonly string[]): string[] {
  return ['run: |', ...script.map((line) => `  ${line}`)]
}

function gitlabJob({ authUrl }: WorkflowTarget, script: readonly string[]): string[] {
  return [
    '  id_tokens:',
    '    IDENTITY:',
    `      aud: ${authUrl}`,
    '  script:',
    '    - |',
    ...script.map((line) => `      ${line}`),
  ]
}

/** A name in YAML. */
function quoted(text: string): string {
  return /^[A-Za-z][\w./ -]*$/.test(text) ? text : JSON.stringify(text)
}

function lines(...all: string[]): string {
  return all.map((line) => `${line}\n`).join('')
}
