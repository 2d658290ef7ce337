import type { Command } from 'commander'
import { beforeAll, describe, expect, it } from 'vitest'
import { makeProgram } from '../../src/commands/program.ts'
import { operator } from '../../src/domain/principal.ts'
import { publishAdvisory } from '../../src/packages/lifecycle/warn.ts'
import { aStoredPasskey } from '../support/account-rows.ts'
import { anAccount } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import { eventsOf } from '../support/event-rows.ts'
import { anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { runSvcInTerminal } from '../support/program.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { runHereInTerminal } from '../support/run-command.ts'

const t = useApp()
const svc = useCommands(t)

/** What the commands are about, by the words in braces below. */
let place: Record<string, string>
beforeAll(async () => {
  const { repository, account, push } = await aPublisher(t, { role: 'admin' })
  await push('1.0.0')
  const application = await anApplication(t.db, { name: 'Build Bot' })
  await anAuthorization(t.db, account, application)
  const person = await anAccount(t.db)
  const change = { repositoryId: repository.id, packageName: 'acme/lib', by: operator, baseUrl: '' }
  const text = { title: 'Bad', affectedVersions: '*', cve: null, link: null, severity: null }
  const { advisoryId } = await publishAdvisory(t.db, change, text)
  const passkey = await aStoredPasskey(t.db, person, { name: 'Old phone' })
  await svc.json('token', 'create', person.username, '--name', 'laptop', '--scope', 'repo-code:r')
  const [group = ''] = repository.path.split('/')
  await svc.json('deploy-token', 'create', group, '--name', 'ci')
  place = {
    path: repository.path,
    group,
    user: account.username,
    person: person.username,
    passkey,
    application: application.clientId,
    advisory: advisoryId,
  }
})

const filled = (text: string) => text.replace(/\{(\w+)\}/g, (_all, name: string) => place[name] ?? name)
const wordsOf = (line: string) => filled(line).split(' ')
const countActs = async () => {
  const events = await eventsOf(t.db, {}, ['repositoryId', 'groupId', 'via'])
  return events.filter((event) => event.repositoryId ?? event.groupId ?? event.via === 'command').length
}

/** Each command that destroys what nobody can bring back, and the name that it asks for. */
const irreversible = [
  ['account delete {person}', '{person}'],
  ['application delete {application}', 'Build Bot'],
  ['version purge {path} acme/lib 1.0.0', 'acme/lib 1.0.0'],
  ['package purge {path} acme/lib', 'acme/lib'],
  ['upstream remove {path} satis --release', 'satis'],
  ['upstream forget {path} acme/lib 1.0.0', 'acme/lib 1.0.0'],
  ['repository delete {path}', '{path}'],
  ['group delete {group} --with-repositories', '{group}'],
] as const

/** Each command that ends access or a warning, and the name that it asks for in a terminal. */
const ending = [
  ['account revoke-all {person}', '{person}'],
  ['account disable {person} --end-everything', '{person}'],
  ['account set-password {person} --end-everything', '{person}'],
  ['account reset-factors {person}', '{person}'],
  ['account remove-passkey {person} {passkey}', 'Old phone'],
  ['account withdraw {user} {application}', 'Build Bot'],
  ['token revoke {person} --name laptop', 'laptop'],
  ['deploy-token revoke {group} --name ci', 'ci'],
  ['application suspend {application}', 'Build Bot'],
  ['application decline {application} --reason x', 'Build Bot'],
  ['advisory withdraw {path} acme/lib {advisory}', '{advisory}'],
] as const

describe('a command that destroys', () => {
  it.each(irreversible)('%s changes nothing without a terminal and without --force', async (line, name) => {
    const before = await countActs()
    const refusal = await svc.fail(...wordsOf(line))
    expect(refusal).toContain(`Run the command in a terminal and type ${filled(name)}, or use --force.`)
    expect(await countActs()).toBe(before)
  })

  it('asks in a terminal, and changes nothing when the name is wrong or missing', async () => {
    const before = await countActs()
    for (const typed of ['yes\n', '']) {
      const line = wordsOf('version purge {path} acme/lib 1.0.0')
      const { code, stdout } = await runSvcInTerminal(line, svc.environment, typed)
      expect([code, stdout]).toEqual([1, expect.stringContaining('Type acme/lib 1.0.0 to continue: ')])
      expect(stdout).toContain('Nothing was changed: that is not acme/lib 1.0.0.')
    }
    expect(await countActs()).toBe(before)
  })

  it.each(ending)('%s asks in a terminal too', async (line, name) => {
    const before = await countActs()
    const { code, stderr } = await runHereInTerminal(wordsOf(line), svc.environment, 'no\n')
    expect([code, stderr]).toEqual([1, expect.stringContaining(`Type ${filled(name)} to continue: `)])
    expect(await countActs()).toBe(before)
  })

  it.each([
    'token revoke {person} --name laptop',
    'deploy-token revoke {group} --name ci',
    'account withdraw {user} {application}',
    'application suspend {application}',
    'advisory withdraw {path} acme/lib {advisory}',
    'account disable {user} --end-everything',
  ])('%s ends it at once in a script', async (line) => {
    expect(await svc.run(...wordsOf(line))).toMatchObject({ code: 0, stderr: '' })
  })

  it.each([
    ['account remove-passkey {person} {passkey}', 'Old phone'],
    ['version purge {path} acme/lib 1.0.0 --json', 'acme/lib 1.0.0'],
    ['group delete {group} --with-repositories', '{group}'],
  ])('%s is done when the name is typed', async (line, name) => {
    const { code, stdout } = await runSvcInTerminal(wordsOf(line), svc.environment, `${filled(name)}\n`)
    expect([code, stdout]).toEqual([0, expect.stringContaining(`Type ${filled(name)} to continue: `)])
  })

  it('has --force, as every command has whose verb destroys', async () => {
    const leavesOf = (command: Command, path: string): [string, Command][] =>
      command.commands.length === 0
        ? [[path, command]]
        : command.commands.flatMap((child) => leavesOf(child, `${path} ${child.name()}`.trim()))
    const destroys = /^(?:delete|purge|remove|reset|revoke|withdraw|suspend|decline)/
    // People sign in and are invited again. The link is for a person.
    const others = ['account reset-link', 'invitation withdraw', 'session revoke']
    const without = leavesOf(await makeProgram('0'), '')
      .filter(([path]) => destroys.test(path.split(' ').at(-1) ?? ''))
      .filter(([, command]) => !command.options.some(({ long }) => long === '--force'))
    expect(without.map(([path]) => path).toSorted()).toEqual(others)
  })
})
