import { rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { findRepositoryByPath } from '../../src/groups/repositories.ts'
import { useCommands } from '../support/commands.ts'
import {
  aMirroredArchive,
  aMirroredPackage,
  bindName,
  holdBack,
  mirroredPackages,
} from '../support/mirrored-rows.ts'
import { makeDataDir } from '../support/postgres.ts'
import { countRows } from '../support/rows.ts'
import { runCommand } from '../support/run-command.ts'
import { raiseAlarm, upstreamsHere, useUpstream } from '../support/upstream.ts'
import {
  aContestedName,
  anUpstream,
  anUpstreamDocument,
  reopenContests,
  upstreamRows,
} from '../support/upstream-rows.ts'

const commands = useCommands()
const upstream = useUpstream()

const repositoryAt = async (path: string) =>
  (await findRepositoryByPath(commands.db, path)) ?? expect.fail(`${path} does not exist`)

describe('svc upstream', () => {
  const svc = async (...words: string[]) => {
    const { code, stdout, stderr } = await runCommand(words, { ...commands.environment, ...upstreamsHere })
    return { code, stdout, stderr, json: () => JSON.parse(stdout) }
  }

  it('adds, changes, lists and removes', async () => {
    await commands.json('account', 'create', 'ann')
    await commands.json('group', 'create', 'acme', '--owner', 'ann')
    await commands.json('repository', 'create', 'acme/php')
    const refused = await svc('upstream', 'add', 'acme/php', 'http://10.255.0.1')
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringMatching(/^(?!.*public IP.*public IP).* has no public IP/),
    ])

    const words = [
      '--name',
      'public',
      '--deny',
      'evil/*',
      'bad/lib:<2',
      '--minimum-age',
      '72',
      '--keep-source',
      'true',
      '--json',
    ]
    const added = await svc('upstream', 'add', 'acme/php', upstream.url, ...words)
    expect(added.json()).toMatchObject({
      name: 'public',
      minimum_age_hours: 72,
      keeps_source: true,
      uses_credentials: true,
      deny: ['evil/*', 'bad/lib:<2'],
    })
    const changed = await svc(
      'upstream',
      'set',
      'acme/php',
      'public',
      '--deny',
      '',
      '--credentials',
      'false',
      '--keep-source',
      'false',
      '--position',
      '7',
      '--json',
    )
    expect(changed.json()).toMatchObject({
      deny: [],
      minimum_age_hours: 72,
      position: 7,
      keeps_source: false,
      uses_credentials: false,
    })
    expect((await svc('upstream', 'list', 'acme/php', '--json')).json().items).toEqual([changed.json()])
    const approved = await svc('upstream', 'approve', 'acme/php', 'psr/log', 'monolog/monolog', '--json')
    expect(approved.json()).toEqual({ path: 'acme/php', approved: ['monolog/monolog', 'psr/log'] })
    const mirror = await repositoryAt('acme/php')
    const [row] = await upstreamRows(commands.db, mirror)
    const upstreamId = row?.id ?? ''
    await aMirroredArchive(commands.db, 'psr/log', { version: '3.0.0' })
    await bindName(commands.db, 'psr/log', upstreamId)
    await anUpstreamDocument(commands.db, 'public', 'psr/log')
    const dist = { type: 'zip', url: `${upstream.url}/log.zip`, reference: 'a1b2c3d4', shasum: '' }
    upstream.offer('psr/log', [{ version: '3.0.0', dist }])
    const forget = (...words: string[]) =>
      svc('upstream', 'forget', 'acme/php', 'psr/log', ...words, '--force')
    const without = await forget('3.0.0')
    expect([without.code, without.stderr]).toEqual([
      1,
      'svc: svc has no bytes of psr/log 3.0.0 to forget: the next request fetches what the upstream serves\n',
    ])
    const unknown = await forget('4.0.0', '--json')
    expect([unknown.code, unknown.stderr]).toEqual([
      1,
      '{"error":"no upstream has offered an archive of psr/log 4.0.0"}\n',
    ])
    await raiseAlarm(commands.db, 'psr/log')
    expect((await forget('3.0.0', '--json')).json()).toEqual({
      path: 'acme/php',
      package: 'psr/log',
      forgotten: [{ version: '3.0.0', sha256: expect.any(String), alarm: 'other bytes' }],
    })
    await raiseAlarm(commands.db, 'psr/log')
    const forgotten = await forget('3.0.0')
    expect([forgotten.code, forgotten.stdout]).toEqual([
      0,
      'Forgotten. The next request for psr/log 3.0.0 fetches what the upstream serves.\n',
    ])
    expect((await svc('upstream', 'forget', '--help')).stdout).toContain('after an alarm')
    await bindName(commands.db, 'psr/log', null)
    expect((await svc('upstream', 'remove', 'acme/php', 'public')).code).toBe(0)
    expect((await svc('upstream', 'remove', 'acme/php', 'public')).stderr).toBe('svc: upstream not found\n')
    const releasing = ['upstream', 'remove', 'acme/php', 'public', '--release', '--force']
    expect((await svc(...releasing)).stderr).toBe('svc: upstream not found\n')
    await bindName(commands.db, 'psr/log', upstreamId)
    const removed = async () =>
      (await svc('upstream', 'list', 'acme/php', '--removed', '--json')).json().items
    expect(await removed()).toMatchObject([{ name: 'public', url: upstream.url, packages: 1 }])
    expect((await svc(...releasing)).code).toBe(0)
    expect(await removed()).toEqual([])
  })

  it('allows versions that are held back', async () => {
    await commands.json('account', 'create', 'sue')
    await commands.json('group', 'create', 'early', '--owner', 'sue')
    await commands.json('repository', 'create', 'early/php')
    const early = await repositoryAt('early/php')
    const upstreamId = await anUpstream(commands.db, early)
    await aMirroredPackage(commands.db, early, 'psr/early', { upstreamId })
    await holdBack(commands.db, 'psr/early', ['2.0.0', '1.0.0'])
    const words = ['upstream', 'allow', 'early/php', 'psr/early']
    expect(await commands.fail(...words, '3.0.0')).toContain('psr/early 3.0.0 is not held back')
    expect(await commands.json(...words, '1.0.0')).toMatchObject({ allowed: ['1.0.0'] })
    const all = await svc(...words)
    expect([all.code, all.stdout]).toEqual([0, 'early/php offers psr/early 2.0.0, 1.0.0 now.\n'])
    expect(await countRows(commands.db, 'early_version', {})).toBe(2)
  })

  it('decides which upstream serves a package that two of them have', async () => {
    await commands.json('account', 'create', 'dan')
    await commands.json('group', 'create', 'two', '--owner', 'dan')
    await commands.json('repository', 'create', 'two/php')
    const two = await repositoryAt('two/php')
    await anUpstream(commands.db, two, { name: 'private', position: 1 })
    const upstreamId = await anUpstream(commands.db, two, { name: 'public', position: 2 })
    await aMirroredPackage(commands.db, two, 'psr/two', { upstreamId })
    const words = ['upstream', 'decide', 'two/php', 'psr/two']
    expect(await commands.fail(...words, 'public', '--force')).toContain(
      'there is nothing to decide about psr/two: no other upstream before public has it',
    )
    await aContestedName(commands.db, 'psr/two', 'private')
    expect(await commands.fail(...words, 'private')).toContain('--force')
    expect(await commands.fail(...words, 'other', '--force')).toContain(
      'choose one of the upstreams that have it: public, private',
    )
    expect(await commands.json(...words, 'public', '--force')).toEqual({
      path: 'two/php',
      package: 'psr/two',
      upstream: 'public',
    })
    await reopenContests(commands.db)
    await commands.json(...words, 'private', '--force')
    expect(await mirroredPackages(commands.db, 'psr/two')).toMatchObject([{ upstream: 'private' }])
  })
})

it('a command warns of credentials that svc does not use, unless it fails', async () => {
  await commands.json('account', 'create', 'eve')
  await commands.json('group', 'create', 'kinds', '--owner', 'eve')
  await commands.json('repository', 'create', 'kinds/php')
  const file = join(await makeDataDir(), 'auth.json')
  onTestFinished(() => rm(dirname(file), { recursive: true }))
  await writeFile(file, JSON.stringify({ 'custom-headers': {}, 'forgejo-token': { x: { token: 'secret' } } }))
  const settings = { ...commands.environment, ...upstreamsHere, UPSTREAM_AUTH_FILE: file }
  const add = async (url: string) => {
    const { code, stderr } = await runCommand(
      ['upstream', 'add', 'kinds/php', url, '--name', 'public'],
      settings,
    )
    return [code, stderr]
  }
  expect(await add('http://127.0.0.1:1')).toEqual([1, expect.stringMatching(/^svc: .*\n$/)])
  expect(await add(upstream.url)).toEqual([
    0,
    'svc: Warning: UPSTREAM_AUTH_FILE contains kinds of credentials that svc does not use: forgejo-token.\n',
  ])
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
  it('refuses a claim that would cut off mirrored packages, unless exceptions match all of them', async () => {
    await commands.json('account', 'create', 'cid')
    await commands.json('group', 'create', 'cut', '--owner', 'cid')
    await commands.json('repository', 'create', 'cut/php')
    const cut = await repositoryAt('cut/php')
    const upstreamId = await anUpstream(commands.db, cut)
    const names = ['sym_fony/yaml', 'sym_fony/mime', 'symxfony/x']
    await aMirroredPackage(commands.db, cut, names, { upstreamId })
    const claim = (...words: string[]) => commands.fail('vendor', 'claim', 'cut', 'sym_fony', ...words)
    expect(await claim()).toContain('2 packages of sym_fony from upstreams would become unavailable')
    expect(await claim('--except', 'sym_fony/typo')).toContain('2 packages of sym_fony')
    expect(await claim('--except', 'sym_fony/typo', 'sym_fony/y*')).toContain('1 package of sym_fony')
    expect(await countRows(commands.db, 'vendor_claim', { vendor: 'sym_fony' })).toBe(0)
    await commands.json('vendor', 'claim', 'cut', 'sym_fony', '--except', 'sym_fony/y*', 'sym_fony/mime')
    // What is cut off already is no reason to refuse other exceptions. What would be cut off now is one.
    expect(await claim('--except', 'sym_fony/y*')).toContain('1 package of sym_fony')
    await commands.json('vendor', 'claim', 'cut', 'sym_fony', '--except', 'sym_fony/y*', '--force')
    await commands.json('vendor', 'claim', 'cut', 'sym_fony', '--except', 'sym_fony/y*', 'sym_fony/other')
  })
})
