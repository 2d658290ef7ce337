import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { aGroup } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'

const t = useApp()
const svc = useCommands(t)

describe('svc policy', () => {
  it('adds, lists and removes rules of a group, and says what one would deny of the lock files', async () => {
    const { name: group } = await aGroup(t.db)
    const lock = join(t.config.dataDir, 'composer.lock')
    await writeFile(
      lock,
      JSON.stringify({ packages: [{ name: 'a/old', version: '1.9.0', license: ['MIT'] }] }),
    )
    await svc.json('project', 'report', `${group}/shop`, '--lock', lock)
    const broken = { project: 'shop', environment: 'production', package: 'a/old', version: '1.9.0' }
    expect(await svc.json('policy', 'check', group, 'a/*:<2', 'b/c')).toEqual({
      projects: 1,
      count: 1,
      broken: [broken],
    })
    expect((await svc.run('policy', 'check', group, 'mit', '--kind', 'licenses')).stdout).toBe(
      'shop  production  a/old  1.9.0\n',
    )
    expect((await svc.run('policy', 'check', group, 'b/c')).stdout).toBe(
      `It denies nothing that projects of ${group} have.\n`,
    )
    expect((await svc.run('policy', 'list', group)).stdout).toBe(`${group} has no rules.\n`)
    const added = await svc.json('policy', 'add', group, 'a/*:<2', 'b/c', '--reason', 'Too old')
    expect(added).toMatchObject({
      kind: 'packages',
      patterns: ['a/*:<2', 'b/c'],
      reason: 'Too old',
      made_by: null,
    })
    const { id } = added
    expect((await svc.run('policy', 'list', group)).stdout).toBe(`${id}  packages  a/*:<2, b/c  Too old\n`)
    expect(await svc.json('policy', 'list', group)).toEqual({ items: [added], next: null })
    expect((await svc.run('policy', 'remove', group, String(id), '--force')).stdout).toBe(
      `Rule ${id} removed.\n`,
    )
    for (const [words, reason] of [
      [['remove', group, String(id), '--force'], 'has no rule'],
      [['add', group, 'GPL3', '--kind', 'licenses', '--reason', 'x'], 'no licence of SPDX'],
      [['add', group, 'a/b'], '--reason'],
    ] as const)
      expect(await svc.run('policy', ...words)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(reason),
      })
  })
})
