import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { maxEveryMinutes, type NewSource } from '../sources/sources.ts'
import { wholeNumber } from './options.ts'

/** The options of a new source, besides its place. */
export interface SourceOptions {
  tags?: string
  branches?: string
  every: number
  secretFile?: string
  sshKeyFile?: string
  hostKey?: string
  hideSource?: boolean
}

/** Adds the options of a new source to a command. */
export function withSourceOptions(command: Command): Command {
  return command
    .option('--tags <pattern>', 'only these tags, such as v1.*; an empty pattern is none (default: all)')
    .option('--branches <pattern>', 'only these branches, such as main (default: all)')
    .option('--every <minutes>', 'how often the server looks', wholeNumber('minutes', 1, maxEveryMinutes), 15)
    .option('--secret-file <file>', 'file with a token, or user:password, for https://')
    .option('--ssh-key-file <file>', 'file with a private key without a passphrase, for ssh://')
    .option(
      '--host-key <fingerprint>',
      'SHA256:… of the key of the SSH server; without it, run confirm afterwards',
    )
    .option('--hide-source', 'do not name the Git repository in the metadata of versions')
}

/** Reads the options of a new source, and its secrets from their files. */
export async function readSourceOptions(options: SourceOptions): Promise<Omit<NewSource, 'url' | 'path'>> {
  const { secretFile, sshKeyFile } = options
  return {
    tags: options.tags ?? null,
    branches: options.branches ?? null,
    everyMinutes: options.every,
    hidesSource: options.hideSource ?? false,
    secret: secretFile === undefined ? null : await readSecretFile(secretFile),
    sshKey: sshKeyFile === undefined ? null : await readSecretFile(sshKeyFile),
    hostKey: options.hostKey ?? null,
  }
}

/** Reads a file with a secret. Throws with what to do when it cannot be read. */
export async function readSecretFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new Error(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  }
}
