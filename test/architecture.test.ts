import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, posix, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { projectRoot } from '../src/config.ts'

const files = listFiles('src')

const exported =
  /^export (?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type|enum) (\w+)/gm

describe('src/', () => {
  it('has no two exports of one name, here or in test/support/', () => {
    const names = listExports('src')
    expect(names).toContainEqual({ name: 'migrate', path: 'database/migrate.ts' })
    expect(listRepeated(names, ({ name }) => name)).toEqual([])
    expect(listRepeated(listExports('test/support'), ({ name }) => name)).toEqual([])
  })

  it('has every file that docs/architecture.md names', () => {
    const document = readFileSync(resolve(projectRoot, 'docs/architecture.md'), 'utf8')
    const named = [...document.matchAll(/`((?:[\w-]+\/)*[\w-]+\.ts)`/g)].map(([, path]) => path ?? '')
    expect(named.length).toBeGreaterThan(20)
    expect(named.filter((path) => !files.some((file) => `/${file}`.endsWith(`/${path}`)))).toEqual([])
  })

  it('has no folder that the map of docs/architecture.md lacks', () => {
    const document = readFileSync(resolve(projectRoot, 'docs/architecture.md'), 'utf8')
    const map = /## The map[\s\S]*?```\n([\s\S]*?)```/.exec(document)?.[1] ?? ''
    const folders = new Set(files.map(dirname).filter((path) => path !== '.'))
    const missing = [...folders].filter((path) => !map.includes(` ${basename(path)}/ `))
    expect(missing).toEqual([])
  })

  it('loads neither Fastify nor its views for a command, except for a running `serve`', () => {
    const loadsThem = (path: string) => {
      const packages = listLoadedPackages(path)
      return packages.has('fastify') || packages.has('@fastify/view')
    }
    const commands = readdirSync(resolve(projectRoot, 'src/commands')).map((name) => `commands/${name}`)
    expect(commands.filter(loadsThem)).toEqual([])
    expect(loadsThem('web/server/run-server.ts')).toBe(true)
  })
})

describe('the linter', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'import-order-'))
    for (const path of ['.oxlintrc.json', '.ci/import-order.js'])
      await cp(resolve(projectRoot, path), join(folder, path))
  })
  afterAll(() => rm(folder, { recursive: true }))

  it.each([
    ['an import', `import { a } from '../web/a.ts'\nconsole.info(a)`],
    ['an import of types', `import type { A } from '../web/a.ts'\nexport const a: A = 1`],
    ['an import when the code runs', `export const a = await import('../web/a.ts')`],
    ['a type from a file', `export type A = import('../web/a.ts').A`],
    ['an export', `export * from '../web/a.ts'`],
    ['an export of a name', `export { a } from '../web/a.ts'`],
  ])('refuses %s from a room above', async (_, text) => {
    const order = ['web', 'packages', 'domain']
    expect(await lint('packages/publish.ts', text, order)).toContain(
      'packages/publish.ts may not import web/a.ts: ' +
        'in the order of rooms in .oxlintrc.json, web is not below packages.',
    )
    expect(await lint('packages/publish.ts', text.replace('web', 'domain'), order)).toBe('')
  })

  it('refuses an import from a room of the same floor, but not from the own room', async () => {
    const order = [['pages', 'api'], 'domain']
    expect(await lint('pages/home.ts', `export * from '../api/user.ts'`, order)).toContain(
      'api is not below pages',
    )
    expect(await lint('pages/home.ts', `export * from './admin/home.ts'`, order)).toBe('')
  })

  it('takes the longest room that contains a file', async () => {
    const order = ['web/pages', 'web', 'domain']
    expect(await lint('web/pages/home.ts', `export * from '../forms.ts'`, order)).toBe('')
    expect(await lint('web/forms.ts', `export * from './pages/home.ts'`, order)).toContain(
      'web/pages is not below web',
    )
  })

  it('refuses a file in no room', async () => {
    expect(await lint('attic/box.ts', 'export const a = 1', ['domain'])).toContain(
      'attic/box.ts is in no room: name its room in the order of rooms in .oxlintrc.json.',
    )
  })

  it('has an order of rooms that exist', () => {
    const rooms = readLintConfig().rules['rooms/order'][1].flat()
    expect(rooms.filter((room) => !existsSync(resolve(projectRoot, 'src', room)))).toEqual([])
  })

  /** Lints one file of src/ with the given order of rooms, and returns what the linter says about it. */
  async function lint(path: string, text: string, order: (string | string[])[]): Promise<string> {
    const config = join(folder, '.oxlintrc.json')
    await writeFile(
      config,
      JSON.stringify({ ...readLintConfig(), rules: { 'rooms/order': ['error', order] } }),
    )
    await mkdir(join(folder, 'src', dirname(path)), { recursive: true })
    await writeFile(join(folder, 'src', path), text)
    const oxlint = resolve(projectRoot, 'node_modules/.bin/oxlint')
    return new Promise((done) => {
      execFile(oxlint, ['--format=unix', join('src', path)], { cwd: folder }, (error, stdout) =>
        done(error === null ? '' : stdout),
      )
    })
  }
})

function readLintConfig(): { rules: { 'rooms/order': [string, (string | string[])[]] } } {
  return JSON.parse(readFileSync(resolve(projectRoot, '.oxlintrc.json'), 'utf8'))
}

/** Lists the packages that a file of src/ loads by its imports and by those of the modules that it imports. */
function listLoadedPackages(path: string, visited = new Set<string>()): Set<string> {
  visited.add(path)
  const text = readFileSync(resolve(projectRoot, 'src', path), 'utf8')
  const packages = new Set<string>()
  // An import of types loads nothing.
  for (const [, name = ''] of text.matchAll(/^(?:import|export) (?!type\b)(?:[^'"]*? from )?'([^']+)'/gm)) {
    const module = posix.join(dirname(path), name)
    if (!name.startsWith('.')) packages.add(name)
    else if (!visited.has(module))
      for (const loaded of listLoadedPackages(module, visited)) packages.add(loaded)
  }
  return packages
}

/** Lists the TypeScript files below a folder, by their paths in it. */
function listFiles(folder: string): string[] {
  return readdirSync(resolve(projectRoot, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .sort()
}

/** Lists the exports of all files below a folder. The overloads of a function are one export. */
function listExports(folder: string): { name: string; path: string }[] {
  return listFiles(folder).flatMap((path) => {
    const text = readFileSync(resolve(projectRoot, folder, path), 'utf8')
    const names = new Set([...text.matchAll(exported)].map(([, name]) => name ?? ''))
    return [...names].map((name) => ({ name, path }))
  })
}

/** Returns the paths of items with equal keys: one text for each key that occurs more than once. */
function listRepeated<T extends { path: string }>(items: readonly T[], keyOf: (item: T) => string): string[] {
  const paths = new Map<string, string[]>()
  for (const item of items) {
    const key = keyOf(item)
    paths.set(key, [...(paths.get(key) ?? []), item.path])
  }
  return [...paths].filter(([, all]) => all.length > 1).map(([key, all]) => `${key}: ${all.join(', ')}`)
}

describe('Dockerfile', () => {
  it('copies every folder and file of the project that the program reads', () => {
    const read = files.flatMap((path) =>
      [...readFileSync(resolve(projectRoot, 'src', path), 'utf8').matchAll(/projectRoot, '([\w.-]+)/g)].map(
        ([, name]) => name,
      ),
    )
    const image =
      readFileSync(resolve(projectRoot, 'Dockerfile'), 'utf8')
        .split(/^FROM /m)
        .at(-1) ?? ''
    expect(new Set(read)).toEqual(new Set(['docs', 'migrations', 'package.json', 'views']))
    for (const folder of ['docs', 'migrations', 'views'])
      expect(image).toContain(`COPY ${folder} ./${folder}\n`)
  })
})
