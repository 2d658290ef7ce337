import { spawn, spawnSync } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import type { ClientLibrary, Tokens } from './client.ts'

/** Debian's Python, which has the libraries as packages. */
const python = '/usr/bin/python3'
const script = fileURLToPath(new URL('python-client.py', import.meta.url))

/** Returns whether a test with the module can run. With CI=true a missing module is a failure, not a skip. */
export function hasPythonModule(module: string): boolean {
  return process.env['CI'] === 'true' || spawnSync(python, ['-c', `import ${module}`]).status === 0
}

/**
 * A library of python-client.py. It reads one step per line and prints one line of JSON for each, also for exceptions.
 */
export function pythonClient(module: 'authlib' | 'requests_oauthlib'): ClientLibrary {
  return async (registration) => {
    const child = spawn(python, [script, module, JSON.stringify(registration)], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { PATH: process.env['PATH'], OAUTHLIB_INSECURE_TRANSPORT: '1', AUTHLIB_INSECURE_TRANSPORT: '1' },
    })
    onTestFinished(() => void child.kill())
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    async function step<Result>(...words: string[]): Promise<Result> {
      child.stdin.write(`${words.join(' ')}\n`)
      const { value, done } = await lines.next()
      if (done) throw new Error(`python ended at: ${words[0]}`)
      const reply: { result: Result } | { refusal: string } = JSON.parse(value)
      if ('refusal' in reply) throw new Error(reply.refusal)
      return reply.result
    }
    return {
      begin: () => step<string>('begin'),
      finish: (callback) => step<Tokens>('finish', callback),
      refresh: () => step<Tokens>('refresh'),
      revoke: module === 'authlib' ? () => step<void>('revoke') : null,
    }
  }
}
