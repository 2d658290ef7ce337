#!/usr/bin/env node
// Compiles src/ into dist/. With --if-needed only when a source is newer than the last build, so that a start is quick
// and an installation without the compiler can start what was built elsewhere.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Written after a build without errors; its time is compared with the sources'. */
const stamp = join(root, 'dist/.built')

if (!isInstalled('fastify')) fail('The packages are not installed. Run: npm ci')
if (!process.argv.includes('--if-needed') || isOutdated()) build()

function build() {
  const compiler = findCompiler()
  if (compiler === null) {
    const why = existsSync(stamp) ? 'The sources have changed since the last build' : 'svc is not built yet'
    fail(
      `${why}, and the compiler is not installed: NODE_ENV=production and npm ci --omit=dev leave it out. ` +
        'Run: npm ci --include=dev && npm run build',
    )
  }
  // The types are removed, not checked: that takes a fifth of the time. `npm run types` checks them.
  const options = ['--noCheck', '--noResolve', '--types', '']
  const { status, error } = spawnSync(
    process.execPath,
    [compiler, '-p', join(root, 'tsconfig.json'), ...options],
    { stdio: 'inherit' },
  )
  if (error) fail(`The compiler did not start: ${error.message}`)
  if (status !== 0) process.exit(status ?? 1)
  writeFileSync(stamp, '')
}

/** Folders count too: their time changes when a source is removed. */
function isOutdated() {
  if (!existsSync(stamp)) return true
  const built = statSync(stamp).mtimeMs
  const sources = readdirSync(join(root, 'src'), { recursive: true }).map((path) => join(root, 'src', path))
  return [join(root, 'src'), join(root, 'tsconfig.json'), ...sources].some(
    (path) => statSync(path).mtimeMs > built,
  )
}

function isInstalled(name) {
  return existsSync(join(root, 'node_modules', name))
}

function findCompiler() {
  try {
    const manifest = createRequire(import.meta.url).resolve('typescript/package.json')
    return join(dirname(manifest), 'bin/tsc')
  } catch {
    return null
  }
}

function fail(line) {
  process.stderr.write(`svc: ${line}\n`)
  process.exit(1)
}
