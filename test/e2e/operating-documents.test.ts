import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { anAccount } from '../support/actors.ts'
import { listStoredApplications } from '../support/application-rows.ts'
import { listArchives } from '../support/archive-rows.ts'
import { useDatabase } from '../support/database.ts'
import {
  type Block,
  exportsOf,
  type Running,
  readBlocks,
  root,
  startLine,
} from '../support/document-commands.ts'
import { pixel } from '../support/oauth-actors.ts'
import { quickPhp } from '../support/php.ts'
import { makeDataDir, removeDataDir } from '../support/postgres.ts'
import { databaseUrl, type Environment, freePort, type Outcome, paste } from '../support/program.ts'
import { has } from '../support/requires.ts'
import { countRows } from '../support/rows.ts'
import { aStoredFactor } from '../support/session-rows.ts'
import { credentials, type Swift, startSwift } from '../support/swift.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const blocks = await readBlocks()
const run = new Set<Block>()

/** Returns the shell block of a document with this first line. The caller runs it. */
function block(file: string, first: string): string {
  const found = blocks.find((one) => one.file === file && one.language === 'sh' && one.first === first)
  if (!found) throw new Error(`${file} has no block that begins with ${first}`)
  run.add(found)
  return found.text
}

const install = block('docs/operations.md', 'npm ci && npm run build')
const firstSteps = block(
  'README.md',
  '# Open a second terminal. The first command prints a password for http://localhost:3000/login',
)
const seed = block('docs/operations.md', 'mkdir -p seeds')
const downloads = block('docs/operations.md', 'npx svc version downloads acme/php acme/hello 1.0.0')
const resetFactors = block('docs/second-factor.md', 'npx svc account reset-factors ann')
const addUpstream = block(
  'docs/packages.md',
  'npx svc upstream add acme/php https://repo.packagist.org --minimum-age 72',
)
const prefetch = block('docs/packages.md', 'npx svc upstream prefetch acme/php --lock composer.lock')
const importPackages = block(
  'docs/packages.md',
  'npx svc import https://satis.example.com "acme/*" --into acme/php --map-v-tags',
)
const copyArchives = block(
  'docs/object-storage.md',
  "npx svc archives copy --to 's3://packages/svc?endpoint=https://s3.example.com&path_style=true'",
)
const bucket = block(
  'docs/object-storage.md',
  "ARCHIVE_STORE='s3://packages/svc?endpoint=https://s3.example.com&region=eu-central-1&path_style=true'",
)
const backup = block('docs/operations.md', 'npx svc backup svc-2026-01-31.tar')
const streamBackup = block('docs/operations.md', 'set -o pipefail')
const backupBucket = block('docs/object-storage.md', 'npx svc backup --database-only svc-2026-01-31.tar')
const repair = block('docs/operations.md', 'npx svc verify-archives --repair --from svc-2026-01-31.tar')
const restore = block('docs/operations.md', 'DATA_DIR=/srv/svc-new npx svc restore svc-2026-01-31.tar')
const startRestored = block('docs/operations.md', 'DATA_DIR=/srv/svc-new npm start')
const backupBefore = block('docs/operations.md', 'npx svc backup svc-before-upgrade.tar')
const plan = block('docs/operations.md', 'npx svc migrate --plan')
const endAfterRestore = block(
  'docs/operations.md',
  'npx svc account set-password alice --end-everything --force',
)
const trust = block(
  'docs/publishing.md',
  'npx svc trusted-publisher add acme/php --provider github --project acme/hello --workflow release.yml \\',
)
const stage = block('docs/publishing.md', 'curl --silent --show-error --fail --user "svc:$SVC_TOKEN" \\')
const tryStage = block(
  'docs/publishing.md',
  'composer config repositories.acme composer https://svc.example.com/acme/php/-/packages/stages/17/',
)
const awaitRelease = block(
  'docs/publishing.md',
  'until curl --silent --show-error --fail --header "Authorization: Bearer $SVC_TOKEN" \\',
)

/** Blocks that documents.test.ts runs. It takes all shell blocks of these documents, but none with `npx svc`. */
const runByDocumentsTest = ['docs/oauth-applications.md', 'docs/packages.md', 'docs/api.md']

/** Blocks that no test runs, by their document and first line, and why. */
const notRun: Record<string, string> = {
  'docs/monitoring.md: npm install --no-save @opentelemetry/auto-instrumentations-node@0.81.2':
    'downloads packages. test/e2e/opentelemetry.test.ts starts the server with this command',
  'README.md: npm ci && npm start':
    'npm ci downloads all packages. The restored installation below is started with npm start',
  'README.md: npm ci && npm test': 'this is the test run itself',
  'docs/operations.md: docker compose up --detach': 'needs a Docker daemon, and downloads images',
  'docs/operations.md: docker compose build': 'needs a Docker daemon, and downloads images',
  'docs/operations.md: cd /opt/svc-new && npm ci && npm run build':
    'downloads all packages. The first test below builds a checkout',
  'docs/operations.md: mv /opt/svc /opt/svc-old && mv /opt/svc-new /opt/svc && systemctl restart svc':
    'needs systemd. test/e2e/upgrade.test.ts restarts a server with another release',
  'docs/operations.md: cd /opt/svc-old && npx svc restore svc-before-upgrade.tar':
    'needs an earlier release. A test below restores a backup with the same command',
  'docs/sign-in-with-svc.md: npx svc application set k2ma5aoyw2c473cwlop7 --post-logout-redirect-uri https://bot.example.com/goodbye \\':
    'needs this application. test/commands/application.test.ts sets these options',
  'docs/operations.md: npx svc keys list': 'test/openid/keys.test.ts runs these commands',
  "docs/command-line.md: TOKEN=$(echo url=https://svc.example.com | git credential fill | sed -n 's/^password=//p')":
    'needs a person who agrees in the browser. test/e2e/git-credential-oauth.test.ts runs these commands',
  'docs/publishing.md: curl --silent --show-error --fail-with-body --user "svc:$TOKEN" \\':
    'needs a bundle that a CI job has signed. test/publishers/attestations.test.ts sends such a form',
  'docs/publishing.md: curl --silent --show-error --fail-with-body --user "svc:$SVC_TOKEN" \\':
    'needs attestations, too. test/publishers/attestations.test.ts reads them at this URL',
  'docs/publishing.md: npx svc source add acme/php https://git.example.com/acme/hello.git --secret-file token.txt':
    'needs a Git server. test/commands/source.test.ts runs these commands',
  'docs/publishing.md: npx svc source confirm 1 SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM':
    'needs an SSH server. test/sources/ssh-sources.test.ts confirms keys',
  'docs/publishing.md: npx svc source import acme/php --from satis.json --secret-file token.txt --dry-run':
    'needs a Git server. test/commands/source-import.test.ts runs these commands',
  "docs/publishing.md: gh repo list acme --limit 1000 --json url --jq 'map(.url)' >repositories.json":
    'needs an account at GitHub. test/commands/source-import.test.ts reads such a file',
  [`docs/publishing.md: psql --tuples-only --no-align --command "select json_agg(json_build_object('type', coalesce(repo_type, 'vcs'), 'url', repository)) from package where parent_id is null" \\`]:
    'needs a database of Packeton. test/commands/source-import.test.ts reads such a file',
  'docs/projects.md: npx svc deploy-token create acme --name lock-files --right report':
    'needs the group acme. test/projects/projects.test.ts reports with such a token',
  'docs/projects.md: curl --fail-with-body -H "Authorization: Bearer $SVC_TOKEN" --data-binary @composer.lock \\':
    'needs a lock file. test/projects/projects.test.ts sends such a request',
  'docs/projects.md: npx svc project report acme/shop --lock composer.lock --environment staging --commit 9fceb02d':
    'needs a lock file. test/commands/project.test.ts runs these commands',
  'docs/projects.md: npx svc project list acme --package acme/lib --constraint "<2.0"':
    'needs projects. test/commands/project.test.ts runs these commands',
  'docs/projects.md: npx svc project sbom acme/shop --environment production > shop.cdx.json':
    'needs a project. test/commands/project.test.ts runs these commands',
  'docs/policies.md: npx svc policy add acme "acme/lib:<2.0" --reason "It is no longer supported: update to 2.0"':
    'needs the group acme. test/commands/policy.test.ts runs these commands',
  'docs/policies.md: npx svc policy check acme "symfony/*:<6.4"':
    'needs projects. test/commands/policy.test.ts runs these commands',
  'docs/packages.md: npx svc retention preview acme/php --keep-development 10 --deleted-archives-days 90':
    'needs versions. test/packages/retention.test.ts runs these commands',
  'docs/packages.md: npx svc advisory export acme/php > advisories.json':
    'needs advisories. test/packages/osv/import-osv.test.ts runs these commands',
  'docs/scim.md: curl -H "Authorization: Bearer $TOKEN" https://svc.example.com/api/scim/acme/v2/Users':
    'needs a sign-in provider. test/web/scim/scim.test.ts sends such requests',
  'docs/webhooks.md: npx svc webhook add acme/php https://ci.example.com/hook --events version.published,version.deleted':
    'needs a receiver. test/commands/webhook.test.ts runs these commands',
  'docs/performance.md: npm run bench': 'takes minutes. A test below compares its words with bench/main.ts',
}
const nameOf = ({ file, first }: Block) => `${file}: ${first}`

const isComplete = has('composer', 'php', 'unzip', 'curl', 'bash')

describe.skipIf(!isComplete)('the commands for operators (needs composer, php, unzip and curl)', async () => {
  const database = useDatabase('template1')
  const upstream = useUpstream({ 'available-packages': ['acme/lib', 'psr/log'] })
  const ports = [await freePort(), await freePort()] as const
  /** A checkout, in which the commands run. */
  let checkout: string
  let dataDir: string
  let newDataDir: string
  let server: Running | null = null

  /** What the documents name, and what stands for it here. */
  const substitutions = (): [documented: string | RegExp, here: string][] => [
    // The packages are installed already. A link leads to them.
    ['npm ci && ', ''],
    ['postgres://svc:secret@db/svc', `'${databaseUrl(database.connection)}'`],
    ['https://svc.example.com', `http://localhost:${ports[0]}`],
    [/localhost:3000/g, `localhost:${ports[0]}`],
    ['# Push: in the folder of a package named acme/hello.', 'cd package'],
    ['# Pull: in the folder of a project.', 'cd ../project'],
    ['https://repo.packagist.org', upstream.url],
    ['https://satis.example.com', upstream.url],
    [/\/srv\/svc-new/g, newDataDir],
  ]
  const translate = (text: string) =>
    substitutions().reduce((result, [from, to]) => result.replaceAll(from, () => to), text)
  const environment = (): Environment => ({
    ...upstreamsHere,
    ...quickPhp(),
    DATABASE_URL: databaseUrl(database.connection),
    DATA_DIR: dataDir,
    LOG_LEVEL: 'error',
    npm_config_update_notifier: 'false',
    npm_config_offline: 'true',
  })
  /** npx itself takes two seconds, so it runs once. After that, this function starts the same program. */
  const quickNpx = () => `npx() { shift; node '${checkout}/bin/svc.js' "$@"; }\n`
  /** Runs shell lines in the checkout. */
  const shell = (text: string, more: Environment = {}, prelude = quickNpx()): Promise<Outcome> =>
    paste(exportsOf({ ...environment(), ...more }) + prelude + translate(text), checkout)
  /** Runs shell lines, which must succeed, and returns what they print. */
  const printed = async (text: string, more: Environment = {}, prelude?: string): Promise<string> => {
    const { code, stdout, stderr } = await shell(text, more, prelude)
    expect([code, stdout, stderr]).toEqual([0, stdout, expect.not.stringMatching(/^svc: /m)])
    return stdout
  }

  beforeAll(async () => {
    checkout = await mkdtemp(join(tmpdir(), 'svc-test-checkout-'))
    dataDir = await makeDataDir()
    newDataDir = await makeDataDir()
    for (const name of [
      'bin',
      'src',
      'views',
      'docs',
      'migrations',
      'package.json',
      'package-lock.json',
      'tsconfig.json',
    ])
      await cp(join(root, name), join(checkout, name), { recursive: true })
    await symlink(join(root, 'node_modules'), join(checkout, 'node_modules'))
    await mkdir(join(checkout, 'package'))
    await writeFile(join(checkout, 'package/composer.json'), '{"name": "acme/hello"}')
    await mkdir(join(checkout, 'project'))
    await writeFile(join(checkout, 'project/composer.json'), '{"repositories": {"packagist.org": false}}')
    await writeFile(join(checkout, 'bot.png'), pixel)
  })
  afterAll(async () => {
    await server?.stop()
    await rm(checkout, { recursive: true, force: true, maxRetries: 5 })
    await removeDataDir(dataDir)
    await removeDataDir(newDataDir)
  })

  it('build and start a server', async () => {
    const [build = '', start = ''] = install.trimEnd().split('\n')
    await printed(build)
    server = await startLine(translate(start), checkout, {
      ...environment(),
      DATABASE_URL: '',
      PORT: String(ports[0]),
    })
    expect((await fetch(`http://localhost:${ports[0]}/readyz`)).status).toBe(200)
  })

  it('create an account, a group, a repository and a token, push and pull', async () => {
    const stdout = await printed(firstSteps)
    expect(stdout).toMatch(/"name":"acme\/hello","version":"1\.0\.0","sha256":"[0-9a-f]{64}"/)
    const lock = JSON.parse(await readFile(join(checkout, 'project/composer.lock'), 'utf8'))
    expect(lock.packages).toMatchObject([{ name: 'acme/hello', version: '1.0.0' }])
  })

  it('write a migration that adds an application', async () => {
    expect(await printed(seed)).toContain('1000')
    expect(await readdir(join(checkout, 'seeds'))).toEqual([expect.stringMatching(/^1000.*\.sql$/)])
    await printed('npx svc migrate', { MIGRATIONS_DIR: 'seeds' })
    const stored = await listStoredApplications(database.db)
    // Each server adds that of the command line.
    expect(stored.filter(({ clientId }) => clientId !== 'svccommandline')).toMatchObject([
      { name: 'Build Bot', status: 'approved' },
    ])
  })

  it('remove the second factors of an account', async () => {
    const { id } = await anAccount(database.db, { username: 'ann' })
    await aStoredFactor(database.db, { id })
    expect(await printed(`${resetFactors.trim()} --force`, {}, '')).toBe(
      'ann has no second factor now: 1 removed.\n',
    )
  })

  it('say who has downloaded which version', async () => {
    const [ofVersion = '', ofAccount = ''] = downloads.trimEnd().split('\n')
    // The server writes what it has gathered in a second.
    await expect.poll(() => printed(ofVersion)).toMatch(/acme\/hello +1\.0\.0/)
    expect(await printed(ofAccount)).toBe('There are no downloads.\n')
  })

  it('add an upstream, fetch the archives of a lock file and import packages', async () => {
    upstream.offer('psr/log', ['3.0.0'])
    upstream.offer('acme/lib', ['v1.1.0'])
    expect(await printed(addUpstream)).toContain('acme/php')
    const reference = Buffer.from('psr/log 3.0.0').toString('hex').padEnd(40, '0').slice(-40)
    const dist = { type: 'zip', url: `${upstream.url}/archives/psr/log/3.0.0.zip`, reference }
    const lock = { packages: [{ name: 'psr/log', version: '3.0.0', dist }], 'packages-dev': [] }
    await writeFile(join(checkout, 'composer.lock'), JSON.stringify(lock))
    expect(await printed(prefetch)).toContain('Fetched 1 of 1')
    expect(await printed(importPackages)).toContain('Imported 1,')
    expect(await listArchives(database.db)).toHaveLength(3)
  })

  it('trust a CI job', async () => {
    expect(await printed(trust)).toContain('added to acme/php')
  })

  it('stage a version, try it, and wait for its release', async () => {
    const auth = JSON.parse(await readFile(join(checkout, 'project/auth.json'), 'utf8'))
    const token = { SVC_TOKEN: auth['http-basic'][`localhost:${ports[0]}`].password as string }
    // The bytes of 1.0.0: the archives below stay three.
    const { id } = JSON.parse(await printed(`cp package/package.zip hello-1.1.0.zip\n${stage}`, token))
    const ofStage = (text: string) => text.replaceAll('stages/17', `stages/${id}`)
    await printed(`cd project\n${ofStage(tryStage)}`)
    const lock = JSON.parse(await readFile(join(checkout, 'project/composer.lock'), 'utf8'))
    expect(lock.packages).toMatchObject([{ name: 'acme/hello', version: '1.1.0' }])
    const [, released] = await Promise.all([
      printed(ofStage(awaitRelease), token),
      printed(`npx svc stage release ${id}`),
    ])
    expect(released).toContain('acme/hello 1.1.0')
  })

  describe.runIf(has('swift-proxy-server'))('for a bucket (needs Swift)', () => {
    let swift: Swift
    beforeAll(async () => {
      swift = await startSwift()
      await swift.makeBucket('packages')
    })
    afterAll(() => swift.stop())

    it('copy all archives into it, and configure it', async () => {
      const atSwift = (text: string) =>
        text
          .replaceAll('https://s3.example.com', swift.endpoint)
          // Swift has one region.
          .replaceAll('eu-central-1', 'us-east-1')
          .replace('AWS_ACCESS_KEY_ID=…', `AWS_ACCESS_KEY_ID=${credentials.accessKeyId}`)
          .replace('AWS_SECRET_ACCESS_KEY=…', `AWS_SECRET_ACCESS_KEY=${credentials.secretAccessKey}`)
      const [, ...keys] = atSwift(bucket).trimEnd().split('\n')
      expect(await printed(`set -a\n${keys.join('\n')}\n${atSwift(copyArchives)}`)).toContain('3')
      await swift.makeBucket('packages-backup')
      const backedUp = await printed(
        `set -a\n${keys.join('\n')}\nrm -f *.tar\n${atSwift(backupBucket)}rm *.tar\n`,
      )
      expect(backedUp).toContain('the backup does not contain them')
      expect(backedUp).toContain('Copied 3 archives')
      const verify = 'npx svc verify-archives --json'
      expect(JSON.parse(await printed(`set -a\n${atSwift(bucket)}${verify}`))).toMatchObject({ archives: 3 })
    })
  })

  it('back up while the server runs, and restore and start a new installation', async () => {
    expect(await printed(backup)).toContain('Wrote svc-2026-01-31.tar')
    expect(await printed(repair)).toContain('Read 3 archives, repaired 0, and could not repair 0.')
    expect(await printed(`${streamBackup}gunzip --test svc-2026-01-31.tar.gz && echo whole\n`)).toBe(
      'whole\n',
    )
    // An empty variable counts as unset, so this installation has the embedded PostgreSQL.
    expect(await printed(restore, { DATABASE_URL: '' })).toContain('3 archives')
    const more = { DATABASE_URL: '', PORT: String(ports[1]) }
    const restored = await startLine(translate(startRestored.trimEnd()), checkout, {
      ...environment(),
      ...more,
    })
    try {
      const auth = JSON.parse(await readFile(join(checkout, 'project/auth.json'), 'utf8'))
      const { username, password } = auth['http-basic'][`localhost:${ports[0]}`]
      const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
      const url = `http://localhost:${ports[1]}/acme/php/-/packages/p2/acme/hello.json`
      const response = await fetch(url, { headers: { authorization } })
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('1.0.0')])
    } finally {
      await restored.stop()
    }
  })

  it('back up before an upgrade, and show what it would do', async () => {
    expect(await printed(backupBefore)).toContain('Wrote svc-before-upgrade.tar')
    expect(await printed(plan)).toBe('Nothing to apply.\n')
  })

  it('end the sessions and tokens of an account, and a deploy token', async () => {
    const live = () =>
      Promise.all(
        ['personal_token', 'deploy_token'].map((table) => countRows(database.db, table, { revokedAt: null })),
      )
    await printed('npx svc deploy-token create acme --name deploy')
    expect(await live()).toEqual([1, 1])
    await printed(endAfterRestore)
    expect(await live()).toEqual([0, 0])
  })
})

describe('the shell blocks of the documents', () => {
  const isRun = (one: Block) =>
    run.has(one) || (runByDocumentsTest.includes(one.file) && !one.text.includes('npx svc'))

  it('are run by a test, or listed with a reason', () => {
    const shells = blocks.filter(({ language }) =>
      ['sh', 'bash', 'console', 'shell', 'zsh'].includes(language),
    )
    expect(shells.length).toBeGreaterThan(20)
    const missing = shells.filter((one) => !isRun(one) && !(nameOf(one) in notRun))
    expect(missing.map(nameOf)).toEqual([])
    expect(Object.keys(notRun).filter((name) => !shells.some((one) => nameOf(one) === name))).toEqual([])
  })

  it('measure only parts that exist', async () => {
    const source = await readFile(join(root, 'bench/main.ts'), 'utf8')
    const parts = Array.from(source.matchAll(/^ {2}(\w+): (?:async )?\(server/gm), ([, name]) => name)
    const sizes = Array.from(source.matchAll(/size\('([\w-]+)'/g), ([, name]) => `--${name}`)
    const performance = blocks.find(({ first }) => first === 'npm run bench')
    const given = Array.from(performance?.text.matchAll(/bench -- (.*)/g) ?? [], ([, words]) => words ?? '')
    const words = given.flatMap((line) => line.split(' ')).map((word) => word.replace(/=\d+$/, ''))
    expect(words).toEqual(expect.arrayContaining(parts))
    expect(
      new Set([
        ...parts,
        ...sizes,
        '--quick',
        'large',
        'upgrade',
        'tasks',
        'projects',
        'sources',
        '--repository=console.git',
      ]),
    ).toEqual(new Set(words))
  })

  it('are marked as such, except for the list of all commands', () => {
    const isCommand = /^(?:npx|npm|node|curl|docker|composer|systemctl|sudo|psql) /m
    const hidden = blocks.filter(({ language, text }) => language === '' && isCommand.test(text))
    expect(hidden.map(({ first }) => first)).toEqual([expect.stringMatching(/^npx svc serve \| migrate /)])
  })
})
