import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
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
    for (const name of ['bin/build.js', 'package.json', 'package-lock.json', 'tsconfig.json'])
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

  it('leaves the files of the build before, which a server may still load, and removes older ones', async () => {
    const built = async () => (await readdir(join(folder, 'dist'))).filter((name) => name.startsWith('late-'))
    await write('src/main.ts', `export const late = import('./late.ts')`)
    const texts: string[][] = []
    for (const text of ['first', 'second', 'third']) {
      await write('src/late.ts', `export const text = '${text}'`)
      await build()
      const files = (await built()).filter((name) => name.endsWith('.js'))
      texts.push(await Promise.all(files.map((name) => readFile(join(folder, 'dist', name), 'utf8'))))
    }
    const found = texts.map((files) =>
      files.flatMap((text) => /first|second|third/.exec(text)?.[0] ?? []).sort(),
    )
    expect(found).toEqual([['first'], ['first', 'second'], ['second', 'third']])
  })

  it('fails each time while a source has a mistake', async () => {
    await write('src/main.ts', 'export const name: string =')
    for (const attempt of [1, 2]) {
      const { code, stderr } = await build()
      expect([attempt, code, stderr.includes('src/main.ts:1:')]).toEqual([attempt, 1, true])
    }
  })

  it('does not wait for a check of the types', async () => {
    await write('src/main.ts', `export const name: string = 1`)
    expect(await build()).toEqual({ code: 0, stdout: '', stderr: '' })
    expect(await compiled()).toContain('name = 1;')
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

describe('dist/', () => {
  it('has one language of zod, because all modules import it as a namespace', async () => {
    const sources = await readdir(join(root, 'src'), { recursive: true })
    const files = sources.filter((name) => name.endsWith('.ts'))
    const texts = await Promise.all(files.map((name) => readFile(join(root, 'src', name), 'utf8')))
    const imports = texts.flatMap((text) => /^import .* from 'zod'/m.exec(text)?.[0] ?? [])
    expect(new Set(imports)).toEqual(new Set(["import * as z from 'zod'"]))
  })

  it('has each package in its files or outside, imported or required, but never two ways', async () => {
    // The folder has the files of the build before, too.
    const built = JSON.parse(await readFile(join(root, 'dist/.built'), 'utf8')) as string[]
    const files = built.filter((name) => name.endsWith('.js'))
    const texts = await Promise.all(files.map((name) => readFile(join(root, 'dist', name), 'utf8')))
    const named = (pattern: RegExp) =>
      new Set(texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name = '']) => name)))
    const inside = named(/^\s*\/\/ node_modules\/((?:@[^/]+\/)?[^/]+)\//gm)
    expect(inside).toContain('zod')
    const imported = named(/^(?:import|export)\b[^;]*?["']((?:@[\w.-]+\/)?[\w-][\w.-]*)(?:\/[^"']*)?["'];$/gm)
    expect(imported).toContain('eta')
    const required = named(/^\s*module\.exports = (?:__)?require\("([^"]+)"\);$/gm)
    expect(required).toContain('pg')
    expect([...required].filter((name) => imported.has(name))).toEqual([])
    const outside = new Set([...imported, ...required])
    for (const name of outside) for (const dependency of await dependenciesOf(name)) outside.add(dependency)
    expect([...inside].filter((name) => outside.has(name))).toEqual([])
  })

  it('loads no client for other servers and no description of the API at the start of a server: the first request does', async () => {
    const built = JSON.parse(await readFile(join(root, 'dist/.built'), 'utf8')) as string[]
    const loaded = new Map<string, string>()
    async function load(name: string): Promise<void> {
      if (loaded.has(name)) return
      const text = await readFile(join(root, 'dist', name), 'utf8')
      loaded.set(name, text)
      const imported = text.matchAll(/^(?:import|export)\b[^;]*?["']\.\/([\w-]+\.js)["'];$/gm)
      await Promise.all(Array.from(imported, ([, file = '']) => load(file)))
    }
    // What the start imports when it runs.
    const parts = built.filter((name) => /^(?:main|(?:config|failure|serve|run-server)-\w+)\.js$/.test(name))
    expect(parts).toHaveLength(5)
    await Promise.all(parts.map(load))
    const text = [...loaded.values()].join('\n')
    expect(text).toMatch(/\/\/ (?:\S*\/)?node_modules\/zod\//)
    expect(text).not.toMatch(/\/\/ (?:\S*\/)?node_modules\/undici\//)
    expect(text).toContain('require("fastify")')
    expect(text).toContain('import("@fastify/swagger")')
    expect(text).not.toMatch(/(?:require\(|from )"@fastify\/swagger"/)
  })
})

/** The packages that a package loads. It has none if it is a module of Node. */
async function dependenciesOf(name: string): Promise<string[]> {
  const manifest = await readFile(join(root, 'node_modules', name, 'package.json'), 'utf8').catch(() => '{}')
  const { dependencies = {}, peerDependencies = {} } = JSON.parse(manifest) as Record<string, object>
  return Object.keys({ ...dependencies, ...peerDependencies })
}
