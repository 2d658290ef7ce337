import { cp, mkdir, mkdtemp, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Outcome, runNode } from '../support/program.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

describe('bin/build.js --if-needed, which runs before npm start', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-build-'))
    for (const name of ['bin/build.js', 'package.json', 'tsconfig.json'])
      await cp(join(root, name), join(folder, name))
    await mkdir(join(folder, 'src'))
    await write('src/main.ts', `export const name: string = 'first'`)
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  })
  afterEach(() => rm(folder, { recursive: true }))

  const write = (name: string, text: string) => writeFile(join(folder, name), text)
  const build = (): Promise<Outcome> => runNode([join(folder, 'bin/build.js'), '--if-needed'])
  const compiled = () => readFile(join(folder, 'dist/main.js'), 'utf8')
  const lookOld = (name: string) => utimes(join(folder, name), new Date(0), new Date(0))
  const withoutCompiler = async () => {
    await rm(join(folder, 'node_modules'))
    await mkdir(join(folder, 'node_modules/fastify'), { recursive: true })
  }

  it('compiles at first, then only when a source was changed or removed', async () => {
    await write('src/more.ts', 'export const more = 1')
    expect(await build()).toEqual({ code: 0, stdout: '', stderr: '' })
    await lookOld('dist/main.js')
    await build()
    expect((await stat(join(folder, 'dist/main.js'))).mtimeMs).toBe(0)
    await write('src/main.ts', `export const name: string = 'second'`)
    await build()
    expect(await compiled()).toContain('second')
    await lookOld('dist/main.js')
    await rm(join(folder, 'src/more.ts'))
    await build()
    expect((await stat(join(folder, 'dist/main.js'))).mtimeMs).not.toBe(0)
  })

  it('fails each time while a source has a mistake', async () => {
    await write('src/main.ts', 'export const name: string =')
    for (const attempt of [1, 2]) {
      const { code, stdout } = await build()
      expect([attempt, code === 0, stdout.includes('TS1109')]).toEqual([attempt, false, true])
    }
  })

  it('does not wait for a check of the types', async () => {
    await write('src/main.ts', `import './absent.ts'\nexport const name: string = 1`)
    expect(await build()).toEqual({ code: 0, stdout: '', stderr: '' })
    expect(await compiled()).toMatch(/^import '\.\/absent\.js';\nexport const name = 1;/)
  })

  it('needs no compiler when everything is built, and otherwise says how to get it', async () => {
    await build()
    await withoutCompiler()
    expect((await build()).code).toBe(0)
    await write('src/main.ts', 'export {}')
    const changed = await build()
    expect(changed.code).toBe(1)
    expect(changed.stderr).toMatch(
      /^svc: The sources have changed .* npm ci --include=dev && npm run build\n$/,
    )
    await rm(join(folder, 'dist'), { recursive: true })
    expect((await build()).stderr).toMatch(/^svc: svc is not built yet, and the compiler is not installed/)
  })

  it('says that npm ci was not run', async () => {
    await rm(join(folder, 'node_modules'))
    expect(await build()).toEqual({
      code: 1,
      stdout: '',
      stderr: 'svc: The packages are not installed. Run: npm ci\n',
    })
  })
})
