import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, posix, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { projectRoot } from '../src/config.ts'

const files = listFiles('src')

const exported =
  /^export (?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type|enum) (\w+)/gm

describe('src/', () => {
  it('has no two exports of one name, here or in test/support/', () => {
    const names = listExports('src')
    expect(names.length).toBeGreaterThan(500)
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
    expect(loadsThem('server/run-server.ts')).toBe(true)
  })
})

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
