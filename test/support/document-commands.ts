import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Environment } from './program.ts'

/** The folder of the project. */
export const root = fileURLToPath(new URL('../..', import.meta.url))

/** A code block of a document. `first` is its first line. */
export interface Block {
  file: string
  language: string
  first: string
  text: string
}

/** Returns all code blocks of the documents, in order. */
export async function readBlocks(): Promise<Block[]> {
  const documents = (await readdir(join(root, 'docs'))).filter((name) => name.endsWith('.md'))
  const pages = (await readdir(root)).filter((name) => name.endsWith('.md'))
  const files = [...pages, ...documents.map((name) => `docs/${name}`)]
  const read = files.map(async (file) => {
    const text = await readFile(join(root, file), 'utf8')
    return Array.from(
      text.matchAll(/^( *)```(\w*)[^\n]*\n(.*?)^ *```$/gms),
      ([, indent = '', language = '', indented = '']) => {
        // A block of a list is indented as its item.
        const code = indented.replaceAll(new RegExp(`^${indent}`, 'gm'), '')
        return { file, language, first: code.split('\n')[0] ?? '', text: code }
      },
    )
  })
  return (await Promise.all(read)).flat()
}

/** Returns shell lines that set variables. */
export function exportsOf(variables: Environment): string {
  return Object.entries(variables)
    .map(([name, value]) => `export ${name}='${value}'\n`)
    .join('')
}

/** A server that a line of a document started. */
export interface Running {
  /** Stops it as a supervisor does. Throws when its exit code is not 0. */
  stop: () => Promise<void>
}

/** Starts a server with a line of a document, and waits until it listens. */
export async function startLine(line: string, cwd: string, environment: Environment): Promise<Running> {
  const env = { PATH: process.env['PATH'], HOME: cwd, ...environment }
  const child = spawn('bash', ['-c', `exec env ${line}`], { cwd, env })
  process.once('exit', () => child.kill())
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text: Buffer) => {
      output += text.toString()
    })
  }
  const closed = once(child, 'close')
  while (!output.includes('listens on')) {
    if (child.exitCode !== null) throw new Error(`${line} ended: ${output}`)
    await sleep(20)
  }
  return { stop: () => stop(child, closed, () => output) }
}

async function stop(child: ChildProcess, closed: Promise<unknown>, output: () => string): Promise<void> {
  child.kill('SIGTERM')
  await closed
  if (child.exitCode !== 0) throw new Error(`The server ended with code ${child.exitCode}: ${output()}`)
}
