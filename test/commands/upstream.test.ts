import { describe, expect, it } from 'vitest'
import { useCommands } from '../support/commands.ts'
import { runSvc } from '../support/program.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const commands = useCommands()
const upstream = useUpstream()

describe('svc upstream', () => {
  const svc = async (...words: string[]) => {
    const { code, stdout, stderr } = await runSvc(words, { ...commands.environment, ...upstreamsHere })
    return { code, stdout, stderr, json: () => JSON.parse(stdout) }
  }

  it('adds, changes, lists and removes', async () => {
    await commands.json('account', 'create', 'ann')
    await commands.json('group', 'create', 'acme', '--owner', 'ann')
    await commands.json('repository', 'create', 'acme/php')
    const refused = await svc('upstream', 'add', 'acme/php', 'http://localhost:1')
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('not on the public internet')])

    const words = ['--name', 'public', '--deny', 'evil/*', 'bad/lib:<2', '--minimum-age', '72', '--json']
    const added = await svc('upstream', 'add', 'acme/php', upstream.url, ...words)
    expect(added.json()).toMatchObject({
      name: 'public',
      minimum_age_hours: 72,
      deny: ['evil/*', 'bad/lib:<2'],
    })
    const changed = await svc(
      'upstream',
      'set',
      'acme/php',
      'public',
      '--deny',
      '',
      '--position',
      '7',
      '--json',
    )
    expect(changed.json()).toMatchObject({ deny: [], minimum_age_hours: 72, position: 7 })
    expect((await svc('upstream', 'list', 'acme/php', '--json')).json().items).toEqual([changed.json()])
    const approved = await svc('upstream', 'approve', 'acme/php', 'psr/log', 'monolog/monolog', '--json')
    expect(approved.json()).toEqual({ path: 'acme/php', approved: ['monolog/monolog', 'psr/log'] })
    expect((await svc('upstream', 'remove', 'acme/php', 'public')).code).toBe(0)
    expect((await svc('upstream', 'remove', 'acme/php', 'public')).stderr).toBe('svc: upstream not found\n')
  })
})

describe('svc vendor', () => {
  it('claims, lists and releases', async () => {
    await commands.json('account', 'create', 'bob')
    await commands.json('group', 'create', 'corp', '--owner', 'bob')
    expect(await commands.json('vendor', 'claim', 'corp', 'symfony', '--except', 'symfony/*')).toEqual({
      group: 'corp',
      vendor: 'symfony',
      exceptions: ['symfony/*'],
    })
    expect(await commands.fail('vendor', 'claim', 'corp', 'Symfony')).toContain('lower-case')
    expect(await commands.json('vendor', 'list', 'corp')).toEqual({
      items: [{ vendor: 'symfony', exceptions: ['symfony/*'], by_hand: true }],
      next: null,
    })
    await commands.json('vendor', 'release', 'corp', 'symfony')
    expect(await commands.fail('vendor', 'release', 'corp', 'symfony')).toContain('no claim')
  })
})
