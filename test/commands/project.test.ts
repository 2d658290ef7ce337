import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { aGroup } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'

const t = useApp()
const svc = useCommands(t)

describe('svc project', () => {
  it('stores a lock file, says who has a package, prints the SBOM, and deletes the project', async () => {
    const { name: group } = await aGroup(t.db)
    const lock = join(t.config.dataDir, 'composer.lock')
    const packages = [
      { name: 'acme/lib', version: '1.0.0' },
      { name: 'old/lib', version: '2.0.0', abandoned: 'acme/lib' },
    ]
    await writeFile(lock, JSON.stringify({ packages }))
    const affected = {
      package: 'old/lib',
      version: '2.0.0',
      reason: 'abandoned',
      advisory: null,
      title: 'acme/lib',
    }
    const report = ['project', 'report', `${group}/shop`, '--lock', lock, '--commit', '9fceb02d']
    expect(await svc.json(...report)).toEqual({ project: 'shop', packages: 2, affected: [affected] })
    const failing = await svc.run(...report, '--fail-if-affected')
    expect(failing).toMatchObject({
      code: 1,
      stdout: 'shop: 2 packages, 1 wrong.\nold/lib 2.0.0  abandoned  acme/lib\n',
      stderr: 'svc: shop has packages with a problem.\n',
    })
    await writeFile(lock, JSON.stringify({ packages: packages.slice(0, 1) }))
    const one = await svc.run('project', 'report', `${group}/blog`, '--lock', lock)
    expect(one.stdout).toBe('blog: 1 package, nothing wrong.\n')
    await svc.json('project', 'delete', `${group}/blog`, '--force')
    const list = ['project', 'list', group]
    expect((await svc.run(...list, '--affected')).stdout).toBe('shop  production: 2 packages, 1 wrong\n')
    expect((await svc.run(...list, '--package', 'acme/lib', '--constraint', '<2.0')).stdout).toContain(
      '1.0.0',
    )
    expect((await svc.run(...list, '--package', 'acme/lib', '--constraint', '>2.0')).stdout).toBe(
      `${group} has no such projects.\n`,
    )
    const other = (await aGroup(t.db)).name
    expect((await svc.run('project', 'list', other)).stdout).toBe(
      `${other} has no projects yet: svc project report stores the lock file of one.\n`,
    )
    const sbom = await svc.run('project', 'sbom', `${group}/shop`)
    expect(JSON.parse(sbom.stdout)).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6' })
    expect(await svc.json('project', 'delete', `${group}/shop`, '--force')).toEqual({
      group,
      project: 'shop',
    })
    for (const [words, reason] of [
      [['project', 'delete', `${group}/shop`, '--force'], 'There is no project'],
      [['project', 'sbom', `${group}/shop`], 'has no lock file of "production"'],
      [['project', 'report', group, '--lock', lock], 'is no <group>/<project>'],
      [['project', 'report', `${group}/shop`, '--lock', `${lock}.none`], 'cannot be read (ENOENT)'],
    ] as const) {
      const { code, stderr } = await svc.run(...words)
      expect([code, stderr]).toEqual([1, expect.stringContaining(reason)])
    }
  })
})
