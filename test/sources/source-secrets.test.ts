import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openLog } from '../../src/web/server/log.ts'
import { aCaller, callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import { dumpRows } from '../support/everything.ts'
import { packageFiles, sourcesHere, useGitServer } from '../support/git-server.ts'
import { recordPrograms } from '../support/recorded-programs.ts'
import { has } from '../support/requires.ts'
import { runCommand } from '../support/run-command.ts'
import { aSource, readSources } from '../support/source-actors.ts'
import { type SshServer, startSshServer } from '../support/ssh-server.ts'

const unpack = `cat "$1"; tar -xOf "$1" --wildcards 'tables/*.gz' | gzip -dc`

describe.runIf(has('sshd', 'ssh-keygen'))('the secrets of sources', () => {
  const t = useApp({ ...sourcesHere, LOG_LEVEL: 'trace' })
  const commands = useCommands(t)
  const http = useGitServer()
  let ssh: SshServer
  beforeAll(async () => {
    ssh = await startSshServer()
  })
  afterAll(() => ssh.stop())

  it('are on no command line, and in no row, log, error, event, response or backup', async () => {
    const recorded = recordPrograms('git', 'ssh')
    const caller = await aCaller(t)
    const { repository: place } = caller
    const token = 'the-token-itself'
    const login = Buffer.from(`x-access-token:${token}`).toString('base64')
    http.authorization = `Basic ${login}`
    const byHttp = http.repository('http')
    byHttp.commit(packageFiles('acme/http'), { tag: '1.0.0' })
    const bySsh = ssh.repository('ssh')
    bySsh.commit(packageFiles('acme/ssh'), { tag: '1.0.0' })
    const sources = [
      await aSource(t, { url: byHttp.url, secret: `${token}\n`, path: '' }, { place }),
      await aSource(t, { url: bySsh.url, sshKey: ssh.key, hostKey: ssh.fingerprint }, { place }),
      await aSource(t, { url: `${http.url}/missing.git`, secret: token }, { place }),
      await aSource(
        t,
        { url: `${ssh.repository('gone').url}x`, sshKey: ssh.key, hostKey: ssh.fingerprint },
        { place },
      ),
      await aSource(t, { url: byHttp.url.replace('.git', '.git/'), secret: 'another-token' }, { place }),
    ] as const
    const jobLog: string[] = []
    await readSources(t, openLog('trace', { write: (line) => void jobLog.push(line) }))
    expect(await sources[0].refs()).toMatchObject({ '1.0.0': { state: 'published' } })
    const found = await Promise.all(sources.map((source) => source.find()))
    expect(found.map((source) => source?.failure ?? null)).toEqual([
      null,
      null,
      'the server has no such Git repository, or needs credentials',
      'the server has no such Git repository, or needs credentials',
      'the server does not accept the credentials, or needs some',
    ])

    const secrets = [token, 'another-token', login, ...sources.map(({ hookSecret }) => hookSecret)]
    const keyLines = ssh.key.split('\n').slice(1, -2)
    const forms = [...secrets, ...keyLines].flatMap((secret) => [
      secret,
      Buffer.from(secret).toString('hex'),
      Buffer.from(secret).toString('base64'),
    ])
    const runs = recorded()
    const lines = runs.map(({ name, words }) => `${name} ${words}`).join('\n')
    expect(lines).toMatch(/git .*ls-remote.*\n(.*\n)*.*git .*fetch/)
    expect(lines).toContain('ssh -F /dev/null -i')

    const file = join(t.config.dataDir, 'backup.tar')
    const here = { ...commands.environment, DATA_DIR: t.config.dataDir }
    expect((await runCommand(['backup', file], here)).stderr).toBe('')
    const api = (
      await Promise.all(
        ['/sources', ...sources.map(({ id }) => `/sources/${id}/refs`), '/packages/acme/http'].map((below) =>
          caller.call('GET', below),
        ),
      )
    ).map(({ statusCode, body }) => ({ statusCode, body }))
    expect(new Set(api.map(({ statusCode }) => statusCode))).toEqual(new Set([200]))
    const events = await callApi(t, caller.token, 'GET', `/api/repositories/${place.path}/events`)
    const listed = await runCommand(['source', 'list', place.path, '--json'], here)
    const documents = await Promise.all([sources[0].entries('acme/http'), sources[1].entries('acme/ssh')])
    const shown = {
      lines,
      rows: await dumpRows(t.db),
      log: t.log() + jobLog.join(''),
      failures: JSON.stringify(found),
      api: JSON.stringify(api),
      events: events.body,
      listed: listed.stdout + listed.stderr,
      documents: JSON.stringify(documents),
      backup: execFileSync('sh', ['-c', unpack, 'sh', file], { encoding: 'latin1' }),
    }
    expect(shown.rows).toContain('add-source')
    expect(shown.events).toContain('add-source')
    expect(shown.backup).toContain('add-source')
    for (const [place, text] of Object.entries(shown))
      for (const form of forms) expect([place, text.includes(form)], form).toEqual([place, false])

    // Git gets the login in its environment. No other program can read that, and only commands that connect have it.
    for (const { words, environment } of runs) {
      const text = environment.join('\n')
      for (const secret of [token, ...keyLines]) expect(text).not.toContain(secret)
      if (!/ (ls-remote|fetch) /.test(words)) expect(text).not.toContain(login)
    }
  })
})
