import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { onTestFinished } from 'vitest'

/** A program that was run. */
export interface RecordedProgram {
  name: string
  /** The command line, in one line. */
  words: string
  /** The variables of its environment, as `NAME=value`. */
  environment: string[]
}

/** Records each run of programs until the test ends. Returns a function that lists the runs. */
export function recordPrograms(...names: string[]): () => RecordedProgram[] {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-programs-'))
  const pathOf = (name: string) => execFileSync('which', [name], { encoding: 'utf8' }).trim()
  for (const name of names) {
    const record = `${folder}/${name}.$$`
    // Git has no PATH when it does not connect.
    const lines = [`echo "$*" >${record}`, `${pathOf('env')} >>${record}`, `exec ${pathOf(name)} "$@"`]
    installProgram(folder, name, lines.join('\n'))
  }
  return () =>
    readdirSync(folder)
      .filter((file) => /\.\d+$/.test(file))
      .map((file) => {
        const [words = '', ...environment] = readFileSync(join(folder, file), 'utf8').trim().split('\n')
        return { name: file.replace(/\.\d+$/, ''), words, environment }
      })
}

/** Puts a program before all others of the machine, until the test ends. */
export function replaceProgram(name: string, script: string): void {
  installProgram(mkdtempSync(join(tmpdir(), 'svc-test-programs-')), name, script)
}

function installProgram(folder: string, name: string, script: string): void {
  const path = process.env['PATH']
  const file = join(folder, name)
  writeFileSync(file, `#!/bin/sh\n${script}\n`)
  chmodSync(file, 0o755)
  process.env['PATH'] = `${folder}${delimiter}${path}`
  onTestFinished(() => {
    process.env['PATH'] = path
    rmSync(folder, { recursive: true, force: true })
  })
}
