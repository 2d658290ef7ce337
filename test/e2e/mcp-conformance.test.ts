import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, expect, it, onTestFinished } from 'vitest'
import { anAccount, signIn } from '../support/actors.ts'
import { open, submitConsent } from '../support/browse.ts'
import { useListeningApp } from '../support/listening.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { freePort } from '../support/program.ts'
import { hasVariable } from '../support/requires.ts'

const port = await freePort()
const site = `http://127.0.0.1:${port}`

/** A folder `node_modules` with the packages `@modelcontextprotocol/conformance`, and `node` of version 22 or later. */
const folder = process.env['MCP_CONFORMANCE'] ?? ''

interface Check {
  id: string
  status: string
  errorMessage?: string
}

describe.skipIf(!hasVariable('MCP_CONFORMANCE'))(
  '@modelcontextprotocol/conformance (MCP_CONFORMANCE is needed)',
  () => {
    const t = useListeningApp(port)

    it.each([
      ['for everything', null],
      ['for one resource', `${site}/api`],
    ])(
      'finds svc, and signs in as a public client %s (OPENID 203, 206, 273, 282)',
      async (_what, resource) => {
        const { clientId } = await anApplication(t.db, {
          redirectUri: 'http://127.0.0.1/callback',
          isPublic: true,
          scopes: ['account-profile:r'],
        })
        const cookie = await signIn(t.app, await anAccount(t.db))
        const results = await mkdtemp(join(tmpdir(), 'svc-test-mcp-'))
        onTestFinished(() => rm(results, { recursive: true }))

        const suite = join(folder, '@modelcontextprotocol/conformance/dist/index.js')
        const options = {
          '--url': site,
          '--client-id': clientId,
          '--port': String(await freePort()),
          '--output-dir': results,
          ...(resource && { '--resource': resource }),
        }
        const words = [suite, 'authorization', ...Object.entries(options).flat()]
        const run = spawn(join(folder, 'node/bin/node'), words, { stdio: ['ignore', 'pipe', 'inherit'] })
        onTestFinished(() => void run.kill())
        const ended = once(run, 'close')
        const printed: string[] = []
        for await (const line of createInterface({ input: run.stdout })) {
          printed.push(line)
          if (!line.startsWith(`${site}/oauth2/auth?`)) continue
          expect(new URL(line).searchParams.get('resource')).toBe(resource)
          const page = await open(t, line.replace(site, ''), cookie)
          const redirect = await submitConsent(t, page, cookie, 'approve')
          await fetch(String(redirect.headers.location))
        }
        expect(await ended, printed.join('\n')).toEqual([0, null])
        expect(await checksIn(results)).toEqual([
          ['authorization-code-grant', 'SUCCESS'],
          ['authorization-server-metadata', 'SUCCESS'],
          // The suite recommends documents as client IDs (draft-ietf-oauth-client-id-metadata-document), which svc does not take.
          ['authorization-server-metadata-cimd', 'WARNING'],
        ])
      },
    )
  },
)

/** Returns the checks that the suite has made, with their outcomes, in the order of their names. */
async function checksIn(results: string): Promise<[id: string, status: string][]> {
  const files = (await readdir(results, { recursive: true })).filter((name) => name.endsWith('checks.json'))
  const read = async (name: string): Promise<Check[]> =>
    JSON.parse(await readFile(join(results, name), 'utf8'))
  const checks = (await Promise.all(files.map(read))).flat()
  return checks
    .map(({ id, status }): [string, string] => [id, status])
    .sort(([one], [other]) => one.localeCompare(other))
}
