import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import { packageFiles, sourcesHere, useGitServer } from '../support/git-server.ts'
import { has } from '../support/requires.ts'
import { runCommand } from '../support/run-command.ts'
import { readSources } from '../support/source-actors.ts'
import { type SshServer, startSshServer } from '../support/ssh-server.ts'

const t = useApp(sourcesHere)
const svc = useCommands(t)
const server = useGitServer()

/** Runs `svc source import` with the settings of the server, and a file with a list. */
async function importFrom(path: string, list: unknown, ...words: string[]) {
  const file = await aFile('list.json', typeof list === 'string' ? list : JSON.stringify(list))
  const own = { DATA_DIR: t.config.dataDir, BASE_URL: t.config.baseUrl, ...sourcesHere }
  return runCommand(['source', 'import', path, '--from', file, ...words], { ...svc.environment, ...own })
}

async function aFile(name: string, content: string): Promise<string> {
  const path = join(t.config.dataDir, name)
  await writeFile(path, content)
  return path
}

function aGitRepository(name: string) {
  const git = server.repository(name)
  git.commit(packageFiles(`acme/${name}`), { tag: 'v1.0.0' })
  return git
}

const versionsIn = async (path: string) => {
  const { items } = await svc.json<{ items: { counts: object }[] }>('source', 'list', path)
  return items.map(({ counts }) => counts)
}

describe('svc source import', () => {
  it('adds a source for each Git repository of a satis.json, and names each other entry', async () => {
    const { path } = await aRepository(t.db)
    const satis = {
      name: 'acme/packages',
      homepage: 'https://packages.acme.example',
      repositories: [
        { type: 'vcs', url: aGitRepository('first').url },
        { type: 'composer', url: 'https://packages.partner.example' },
        { type: 'vcs', url: 'https://192.0.2.1/private.git' },
        { type: 'vcs', url: 'https://deploy:hunter2@git.example.com/legacy.git' },
        { type: 'gitlab', url: aGitRepository('second').url },
      ],
      require: { 'acme/first': '^1.0' },
    }
    const dry = await importFrom(path, satis, '--dry-run')
    expect(dry.code).toBe(1)
    expect(dry.stdout).toContain('Would add 2, already there 0, skipped 1, failed 2.\n')
    expect(await versionsIn(path)).toEqual([])
    const { code, stdout, stderr } = await importFrom(path, satis)
    const { items } = await svc.json<{ items: { id: number }[] }>('source', 'list', path)
    const [first, second] = items.map(({ id }) => id)
    expect(code).toBe(1)
    expect(stderr).toBe('svc: 2 of 5 entries could not be added. Correct them, and run the command again.\n')
    expect(stdout.replace(/(secret) whsec_\S{44}/g, '$1 X').split('\n')).toEqual([
      `${server.url}/first.git: added as source ${first}, hook http://svc.test/hooks/${first} with the secret X`,
      expect.stringMatching(/^https:\/\/192\.0\.2\.1\/private\.git: failed \(.*no public IP/),
      expect.stringMatching(
        /^https:\/\/git\.example\.com\/legacy\.git: failed \(.*must not contain credentials/,
      ),
      `${server.url}/second.git: added as source ${second}, hook http://svc.test/hooks/${second} with the secret X`,
      'composer https://packages.partner.example: skipped (it is a Composer registry: add it with svc upstream add, or copy it with svc import)',
      'Not used: require. A source publishes every tag and branch: choose with --tags and --branches.',
      'Added 2, already there 0, skipped 1, failed 2.',
      '',
    ])
    await readSources(t)
    expect(await versionsIn(path)).toEqual([{ published: 2 }, { published: 2 }])
  })

  it('adds what is new at a second run, with its settings', async () => {
    const { path } = await aRepository(t.db)
    const list = [aGitRepository('third').url]
    await importFrom(path, list, '--branches', '', '--every', '60')
    list.push(aGitRepository('fourth').url)
    const { code, stdout } = await importFrom(path, list, '--branches', '', '--every', '60', '--json')
    const result = JSON.parse(stdout) as { items: { id: number }[] }
    expect(code).toBe(0)
    expect(result).toEqual({
      added: 1,
      already_there: 1,
      skipped: 0,
      failed: 0,
      dry_run: false,
      notes: [],
      items: [
        {
          entry: list[0],
          outcome: 'already there',
          reason: null,
          id: null,
          hook_url: null,
          hook_secret: null,
          host_keys: [],
          host_keys_confirmed: null,
        },
        {
          entry: list[1],
          outcome: 'added',
          reason: null,
          id: expect.any(Number),
          hook_url: `http://svc.test/hooks/${result.items[1]?.id}`,
          hook_secret: expect.stringMatching(/^whsec_/),
          host_keys: [],
          host_keys_confirmed: true,
        },
      ],
    })
    const listed = await svc.json<{ items: object[] }>('source', 'list', path)
    expect(listed.items).toMatchObject([
      { every: 60, branches: '' },
      { every: 60, branches: '' },
    ])
  })

  it('sends a token to one host only', async () => {
    const { path } = await aRepository(t.db)
    const list = [aGitRepository('fifth').url, 'https://git.stranger.example/lib.git']
    const token = ['--secret-file', await aFile('token.txt', 'a-secret-token\n')]
    const refused = await importFrom(path, list, ...token)
    expect(refused.stderr).toContain('The token would be sent to git.stranger.example, localhost')
    expect(await versionsIn(path)).toEqual([])
    const { code, stdout } = await importFrom(path, list, ...token, '--host', 'LOCALHOST')
    expect(code).toBe(0)
    expect(stdout).toContain('lib.git: skipped (its host is git.stranger.example)')
    expect(stdout).not.toContain('a-secret-token')
    server.authorization = `Basic ${Buffer.from('x-access-token:a-secret-token').toString('base64')}`
    await readSources(t)
    server.authorization = null
    expect(await versionsIn(path)).toEqual([{ published: 2 }])
  })

  it('refuses a file that it cannot read, and adds nothing', async () => {
    const { path } = await aRepository(t.db)
    expect(await importFrom(path, '{}')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('list of URLs'),
    })
    const large = await importFrom(path, `["${'a'.repeat(4 * 1024 ** 2)}"]`)
    expect(large.stderr).toContain('has more than 4194304 bytes')
    expect(await svc.fail('source', 'import', path, '--from', '/nowhere')).toContain(
      '/nowhere cannot be read (ENOENT)',
    )
  })

  describe.runIf(has('sshd', 'ssh-keygen'))('with an SSH server', () => {
    let ssh: SshServer
    beforeAll(async () => {
      ssh = await startSshServer()
    })
    afterAll(() => ssh.stop())

    it('gives each source the secret of its protocol, and shows the keys of the SSH servers once', async () => {
      const { path } = await aRepository(t.db)
      const urls = ['sixth', 'seventh'].map((name) => {
        const git = ssh.repository(name)
        git.commit(packageFiles(`acme/${name}`), { tag: '1.0.0' })
        return git.url
      })
      const words = [
        ...['--secret-file', await aFile('token.txt', 'a-secret-token\n')],
        ...['--ssh-key-file', await aFile('key', ssh.key)],
      ]
      const list = [...urls, aGitRepository('eighth').url]
      const dry = await importFrom(path, list, ...words, '--dry-run')
      expect(dry.stdout.split(`Key of an SSH server: ${ssh.fingerprint}.`)).toHaveLength(2)
      expect(await versionsIn(path)).toEqual([])
      const first = await importFrom(path, urls.slice(0, 1), ...words)
      const [, id = ''] = /run: svc source confirm (\d+) SHA256:/.exec(first.stdout) ?? []
      await readSources(t)
      expect(await versionsIn(path)).toEqual([{}])
      await svc.run('source', 'confirm', id, ssh.fingerprint)
      const { code, stdout } = await importFrom(path, list, ...words, '--host-key', ssh.fingerprint)
      expect([code, stdout]).toEqual([0, expect.not.stringContaining('confirm')])
      await readSources(t)
      expect(await versionsIn(path)).toEqual([{ published: 2 }, { published: 2 }, { published: 2 }])
    })
  })
})
