import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { explainFailure } from '../../src/web/server/failure.ts'
import { anAccount } from '../support/actors.ts'
import { useCommands } from '../support/commands.ts'
import { limitLockWaits, lockRow, openTransaction } from '../support/locks.ts'
import { paste, program, runSvc } from '../support/program.ts'

describe('svc', () => {
  const svc = useCommands()

  it.each([
    [''],
    ['serve'],
    ['migrate'],
    ['demo'],
    ['collect-garbage'],
    ['verify-archives'],
    ['account'],
    ['account create'],
    ['account delete'],
    ['session revoke'],
    ['token list'],
    ['group create'],
    ['group rename'],
    ['group delete'],
    ['repository create'],
    ['repository set'],
    ['repository delete'],
    ['member list'],
    ['member set'],
    ['application'],
    ['application new'],
    ['application list'],
    ['application show'],
    ['application set'],
    ['application delete'],
    ['application approve'],
    ['application suspend'],
    ['application rotate-secret'],
    ['token create'],
    ['token revoke'],
  ])('%s --help explains itself', async (words) => {
    const { code, stdout, stderr } = await svc.run(...words.split(' ').filter(Boolean), '--help')
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain(`Usage: svc ${words}`.trimEnd())
  })

  it('help prints the help of a subcommand', async () => {
    const { code, stdout } = await svc.run('help', 'upstream', 'add')
    expect([code, stdout]).toEqual([0, expect.stringContaining('Usage: svc upstream add ')])
  })

  it.each([
    ['', 'a command is missing'],
    ['account', 'a command is missing'],
    ['frobnicate', "unknown command 'frobnicate'"],
    ['account destroy', "unknown command 'destroy'"],
    ['help account destroy', "unknown command 'account destroy'"],
    ['account create', "missing required argument 'username'"],
    ['account create ann bob', 'too many arguments'],
    ['migrate --now', "unknown option '--now'"],
  ])('%s fails with one line', async (words, message) => {
    expect(await svc.fail(...words.split(' ').filter(Boolean))).toContain(message)
  })

  it.each([
    ['svc ses', 'session'],
    ['svc account set-', 'set-password set-name set-email set-admin'],
    ['svc account delete ann --g', '--groups-to'],
    ['svc application set abc --red', '--redirect-uri'],
  ])('completes %s', async (line, completed) => {
    const { stdout: script } = await svc.run('completion', 'bash')
    const words = line.split(' ')
    const { stdout } = await paste(
      `${script}\nCOMP_WORDS=(${words.join(' ')})\nCOMP_CWORD=${words.length - 1}\n_svc\necho "\${COMPREPLY[*]}"`,
      '/tmp',
    )
    expect(stdout).toBe(`${completed}\n`)
  })

  it.each([
    [['account', 'show', 'a\u001b[2Jb'], 'There is no account "a\\u001b[2Jb".'],
    [['account', 'show', "a$$b$'"], `There is no account "a$$b$'".`],
    [['account', 'show', 'a\u009b2Jb'], 'There is no account "a\\u009b2Jb".'],
    [['repository', 'rename', 'a/b', 'a\nb'], 'There is no repository "a/b".'],
    [['import', 'x', 'a\nsvc: b', '--into', 'a/b'], 'a\\u000asvc: b is not a valid pattern'],
    [['account', 'list', '--limit=\r\n1'], "argument '\\u000d\\u000a1' is invalid"],
  ])('%j fails with one line, which does not control the terminal', async (words, message) => {
    const line = await svc.fail(...words)
    expect(line).toContain(message)
    expect(line).not.toMatch(/\p{Cc}/u)
  })

  it('--version prints the version of package.json', async () => {
    const manifest = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'))
    const { code, stdout } = await svc.run('--version')
    expect([code, stdout]).toEqual([0, `${manifest.version}\n`])
  })

  it('names every mistake of the configuration', async () => {
    const { code, stderr } = await runSvc(['migrate'], { PORT: 'x', LOG_LEVEL: 'y' })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^svc: The configuration cannot be used:\n {2}PORT .*\n {2}LOG_LEVEL .*\n$/)
  })

  it('says that a database does not respond, and keeps its password to itself', async () => {
    const url = 'postgres://svc:secret@127.0.0.1:1/svc'
    const { code, stderr } = await runSvc(['account', 'create', 'ann'], { DATABASE_URL: url })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^svc: The database does not respond: .*127\.0\.0\.1:1\.\n$/)
    expect(stderr).not.toContain('secret')
  })

  it('says in one line that nobody reads its output', async () => {
    const { code, stderr } = await paste(`"${process.execPath}" "${program}" --help > /dev/full`, '/tmp')
    expect([code, stderr]).toEqual([1, 'svc: The output could not be written (ENOSPC).\n'])
  })

  it('says that the server of DATABASE_URL does not respond as PostgreSQL', async () => {
    const silent = createServer((socket) => socket.end()).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const url = `postgres://127.0.0.1:${(silent.address() as AddressInfo).port}/svc`
    const { code, stderr } = await runSvc(['account', 'create', 'ann'], { DATABASE_URL: url })
    silent.close()
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^svc: The database does not respond: .*\.\n$/)])
  })

  it('says that a command can run again which has lost to another change', async () => {
    const account = await anAccount(svc.db)
    const [first, second] = [await openTransaction(svc.db), await openTransaction(svc.db)]
    await lockRow(first.tx, 'account', account)
    await limitLockWaits(second.tx, 1)
    const error = await lockRow(second.tx, 'account', account).catch((thrown: unknown) => thrown)
    for (const { rollback } of [first, second]) await rollback()
    expect(explainFailure(error)).toMatch(/^Nothing was changed: .* Run it again\.$/)
  })

  it('asks for svc migrate on a database that lacks the schema', async () => {
    await svc.db.query('drop table personal_token cascade')
    await anAccount(svc.db, { username: 'ann' })
    const line = await svc.fail('token', 'create', 'ann', '--name', 'x', '--scope', 'repo-code:r')
    expect(line).toMatch(/run svc migrate\.$/)
  })
})
