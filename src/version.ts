import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { projectRoot } from './config.ts'

const manifest: unknown = JSON.parse(readFileSync(resolve(projectRoot, 'package.json'), 'utf8'))

/** The version of svc, as in package.json. */
export const { version } = manifest as { version: string }
