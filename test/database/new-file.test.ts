import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { writeNewFile } from '../../src/database/new-file.ts'

async function aFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-new-file-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  return folder
}

describe('a new file', () => {
  it('has its name only when it is complete', async () => {
    const folder = await aFolder()
    const path = join(folder, '1000_new.sql')
    const content = 'select 1;'.repeat(4_000_000)
    let isWritten = false
    const writing = writeNewFile(path, content).finally(() => {
      isWritten = true
    })
    const sizes = new Set<number>()
    while (!isWritten) sizes.add((await stat(path).catch(() => null))?.size ?? content.length)
    await writing
    expect([...sizes]).toEqual([content.length])
    expect(await readdir(folder)).toEqual(['1000_new.sql'])
  })

  it('never replaces another one', async () => {
    const folder = await aFolder()
    const path = join(folder, '1000_new.sql')
    await writeFile(path, 'select 1;')
    await expect(writeNewFile(path, 'select 2;')).rejects.toMatchObject({ code: 'EEXIST' })
    expect(await readFile(path, 'utf8')).toBe('select 1;')
    expect(await readdir(folder)).toEqual(['1000_new.sql'])
  })
})
