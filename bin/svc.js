#!/usr/bin/env node
// The command of package.json's "bin". It is not the built file itself, because npx links it once, maybe before the
// first build, and then never again.
import { existsSync } from 'node:fs'

const cli = new URL('../dist/cli.js', import.meta.url)
if (!existsSync(cli)) {
  process.stderr.write('svc: it is not built yet. Run: npm run build\n')
  process.exit(1)
}
await import(cli.href)
