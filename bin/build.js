#!/usr/bin/env node
// Bundles src/ into dist/. With --if-needed only when a source is newer than the last build, so that a start is quick
// and an installation without the compiler can start what was built elsewhere.
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const output = join(root, 'dist')
/** Lists the built files. Written after a build without errors; its time is compared with the sources'. */
const stamp = join(output, '.built')

/** The programs and the threads. The other modules are in the files of these, or in files that several of them load. */
const entryPoint = /^(?:main|cli)\.ts$|-thread\.ts$/
/**
 * Packages of many small files: to read them one by one takes longer than most commands. The others stay outside, where
 * OpenTelemetry finds those that it observes. A package that imports one of these must be here, too, so that svc loads
 * only one copy.
 */
const bundled = ['commander', 'diff', 'fastify-type-provider-zod', 'prom-client', 'undici', 'zod']
/**
 * Packages outside whose code is CommonJS. With `import`, Node would first search all their files for the names of what
 * they export, which takes a third of a short command. So they are loaded with `require`.
 */
const required = [
  '@fastify/basic-auth',
  '@fastify/busboy',
  '@fastify/cookie',
  '@fastify/formbody',
  '@fastify/view',
  '@sigstore/bundle',
  '@sigstore/protobuf-specs',
  '@sigstore/verify',
  'argon2',
  'close-with-grace',
  'fastify',
  'find-my-way',
  'ipaddr.js',
  'negotiator',
  'pg',
  'pg-copy-streams',
  'pino',
  'tar-stream',
  'yauzl',
]
/**
 * The first line of every file. Modules that are CommonJS need `require`. Where no `navigator` says that this is not
 * Cloudflare, as in Node 20, pg would load all of `fetch` to find out.
 */
const firstLine =
  `import { createRequire as makeRequire } from 'node:module'; const require = makeRequire(import.meta.url); ` +
  `globalThis.navigator ??= { userAgent: 'Node.js/' + process.versions.node };`

if (!isInstalled('fastify')) fail('The packages are not installed. Run: npm ci')
const sources = readdirSync(join(root, 'src'), { recursive: true })
if (!process.argv.includes('--if-needed') || isOutdated()) await build()

async function build() {
  const compiler = await import('esbuild').catch(() => null)
  if (compiler === null) {
    const why = existsSync(stamp) ? 'The sources have changed since the last build' : 'svc is not built yet'
    fail(
      `${why}, and the compiler is not installed: NODE_ENV=production and npm ci --omit=dev leave it out. ` +
        'Run: npm ci --include=dev && npm run build',
    )
  }
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const previous = listBuilt()
  const { metafile } = await compiler
    .build({
      absWorkingDir: root,
      entryPoints: sources.filter((path) => entryPoint.test(basename(path))).map((path) => join('src', path)),
      // All files are in one folder: svc finds views/, migrations/ and its threads from there.
      outdir: output,
      entryNames: '[name]',
      bundle: true,
      splitting: true,
      format: 'esm',
      platform: 'node',
      target: 'node20',
      external: ['@fastify/*', ...Object.keys(dependencies).filter((name) => !bundled.includes(name))],
      plugins: [{ name: 'required', setup: requirePackages }],
      banner: { js: firstLine },
      // For stack traces. The sources are in the repository.
      sourcemap: true,
      sourcesContent: false,
      metafile: true,
      logLevel: 'warning',
    })
    .catch(() => process.exit(1))
  const built = Object.keys(metafile.outputs).map((path) => basename(path))
  // A server that still runs the previous build may load more of its files.
  const kept = new Set([...built, ...previous, basename(stamp)])
  for (const name of readdirSync(output)) if (!kept.has(name)) rmSync(join(output, name), { recursive: true })
  writeFileSync(stamp, JSON.stringify(built))
}

/** Puts a module that requires the package in the place of each of `required`. */
function requirePackages(build) {
  const namespace = 'required'
  build.onResolve({ filter: /^[@\w]/ }, ({ path, kind }) =>
    kind === 'import-statement' && required.includes(path) ? { path, namespace } : undefined,
  )
  build.onLoad({ filter: /./, namespace }, ({ path }) => ({
    contents: `module.exports = require(${JSON.stringify(path)})`,
  }))
}

/** Lists the files of the last build. An earlier release kept no list. */
function listBuilt() {
  try {
    return JSON.parse(readFileSync(stamp, 'utf8'))
  } catch {
    return existsSync(output) ? readdirSync(output) : []
  }
}

/** Folders count too: their time changes when a source is removed. */
function isOutdated() {
  if (!existsSync(stamp)) return true
  const built = statSync(stamp).mtimeMs
  return [
    'bin/build.js',
    'package-lock.json',
    'tsconfig.json',
    'src',
    ...sources.map((path) => join('src', path)),
  ].some((path) => statSync(join(root, path)).mtimeMs > built)
}

function isInstalled(name) {
  return existsSync(join(root, 'node_modules', name))
}

function fail(line) {
  process.stderr.write(`svc: ${line}\n`)
  process.exit(1)
}
