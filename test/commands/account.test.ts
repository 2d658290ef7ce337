import { describe, expect, it } from 'vitest'
import { isPassword } from '../../src/accounts/passwords.ts'
import { storedAccount, verifyEmail } from '../support/account-rows.ts'
import { useCommands } from '../support/commands.ts'
import { runCommand } from '../support/run-command.ts'

describe('svc account create', () => {
  const svc = useCommands()
  const opens = async (username: string, password: string) =>
    isPassword(password, (await storedAccount(svc.db, { username }))?.passwordHash ?? '')

  it('makes an account with a generated password, and prints it', async () => {
    const made = await svc.json('account', 'create', 'ann')
    expect(made).toEqual({ username: 'ann', password: expect.stringMatching(/^[0-9A-Za-z]{25}$/) })
    expect(await opens('ann', made['password'] ?? '')).toBe(true)
  })

  it('stores the given values, and prints text without --json', async () => {
    const { stdout } = await svc.run(
      ...['account', 'create', 'bob', '--email', 'bob@example.com', '--name', 'Bob Ray', '--admin'],
      ...['--password', 'known to bob'],
    )
    expect(stdout).toBe('Account bob created.\n')
    expect(await opens('bob', 'known to bob')).toBe(true)
    expect(await storedAccount(svc.db, { username: 'bob' })).toMatchObject({
      displayName: 'Bob Ray',
      email: 'bob@example.com',
      isAdmin: true,
    })
  })

  it.each(['from the pipe', 'from the pipe\n', 'from the pipe\r\nand more'])(
    'reads a password from %j',
    async (input) => {
      const username = `pipe${input.length}`
      const words = ['account', 'create', username, '--password-stdin']
      expect(await runCommand(words, svc.environment, input)).toMatchObject({ code: 0 })
      expect(await opens(username, 'from the pipe')).toBe(true)
    },
  )

  it('prints the error in one line', async () => {
    expect(await svc.fail('account', 'create', 'ann')).toBe('svc: This username is taken.')
    expect(await svc.fail('account', 'create', 'Ann')).toMatch(/^svc: A username has at most 39 characters/)
    expect(await svc.fail('account', 'create', 'x', '--email', 'nowhere')).toMatch(
      /^svc: Enter a valid email address/,
    )
    // Only a verified email belongs to its account alone.
    await verifyEmail(svc.db, { id: (await storedAccount(svc.db, { username: 'bob' }))?.id ?? '' })
    expect(await svc.fail('account', 'create', 'x', '--email', 'BOB@example.com')).toMatch(/another account/)
    expect(await svc.fail('account', 'create', 'x', '--name', 'X\u001b[2J')).toBe(
      'svc: A name must not contain control characters.',
    )
    expect(await svc.fail('account', 'create', 'x', '--password', '')).toMatch(/at least 12 characters/)
    expect(await svc.fail('account', 'create', 'x', '--password', '1qaz2wsx3edc')).toMatch(/most common/)
    expect(await svc.fail('account', 'create', 'x'.repeat(12), '--password', 'X'.repeat(12))).toMatch(
      /is the username/,
    )
    expect(await svc.fail('account', 'create', 'x', '--password', 'a'.repeat(1025))).toMatch(/1024 bytes/)
    expect(await svc.fail('account', 'create', 'x', '--password', 'a', '--password-stdin')).toMatch(
      /cannot be used/,
    )
  })

  it('prints the error as JSON with --json', async () => {
    const line = await svc.fail('account', 'create', 'ann', '--json')
    expect(JSON.parse(line)).toEqual({ error: 'This username is taken.' })
  })
})
