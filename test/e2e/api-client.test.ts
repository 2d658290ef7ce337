import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aGroup, aGroupMember, anAccount, aPersonalToken, aRepository } from '../support/actors.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { aPackageZip } from '../support/registry-actors.ts'
import { has } from '../support/requires.ts'

const run = promisify(execFile)

/** A program whose author knows only the OpenAPI document. */
const program = `
import { readFile } from 'node:fs/promises'
import createClient from 'openapi-fetch'
import type { components, paths } from './api.d.ts'

const [baseUrl = '', token = '', group = '', name = '', archive = ''] = process.argv.slice(2)
const client = createClient<paths>({ baseUrl })
const bearer = { authorization: 'Bearer ' + token }
const path = { group, name, vendor: 'acme', package: 'lib', version: '1.0.0' }
const url = '/api/repositories/{group}/{name}/packages/{vendor}/{package}/{version}'
const say = (...words: unknown[]) => console.log(words.join(' '))

const pushed = await client.PUT('/{group}/{name}/-/packages/upload/{vendor}/{package}/{version}', {
  params: { path },
  headers: { authorization: 'Basic ' + btoa('svc:' + token), 'content-type': 'application/zip' },
  body: '',
  bodySerializer: () => bytes,
})
say('push', pushed.response.status)
const list = await client.GET('/api/repositories/{group}/{name}/packages', {
  params: { path: { group, name }, query: { limit: 10 } },
  headers: bearer,
})
const packages: components['schemas']['Package'][] = list.data ?? []
say('list', packages.map(({ name, latest_version }) => name + ' ' + latest_version))
const deleted = await client.DELETE(url, { params: { path }, headers: bearer })
say('delete', deleted.response.status)
const restored = await client.POST(\`\${url}/restore\` as const, { params: { path }, headers: bearer })
say('restore', restored.data?.version, restored.data?.deleted_at)
const missing = await client.GET(url, { params: { path: { ...path, version: '9.9.9' } }, headers: bearer })
say('error', missing.error?.errcode, missing.error?.errmsg)
`.replace('const say', 'const bytes = await readFile(archive)\nconst say')

describe.skipIf(!has('openapi-typescript'))('a generated client (needs openapi-typescript)', async () => {
  const port = await freePort()
  const t = useListeningApp(port)
  let folder: string
  beforeAll(async () => {
    // The folder is below node_modules, so that the program finds openapi-fetch.
    folder = await mkdtemp(join('node_modules', '.svc-test-client-'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  it('type-checks, and pushes, lists, deletes and restores', async () => {
    const ann = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, ann, group, 'admin')
    const { path } = await aRepository(t.db, { group })
    const token = await aPersonalToken(t.db, ann, {
      scopes: ['registry-package:rw', 'registry-package-delete:rw'],
    })
    const origin = `http://127.0.0.1:${port}`
    await writeFile(join(folder, 'client.mts'), program)
    await writeFile(join(folder, 'package.zip'), aPackageZip('acme/lib'))
    await run('openapi-typescript', [`${origin}/api/openapi.json`, '--output', join(folder, 'api.d.ts')])
    await run('npx', [
      ...['tsc', '--ignoreConfig', '--noEmit', '--strict', '--module', 'node20', '--target', 'es2023'],
      ...['--types', 'node', '--skipLibCheck', '--allowImportingTsExtensions', join(folder, 'client.mts')],
    ])
    const { stdout } = await run('npx', [
      ...['tsx', join(folder, 'client.mts'), origin, token, ...path.split('/'), join(folder, 'package.zip')],
    ])
    expect(stdout.trim().split('\n')).toEqual([
      'push 201',
      'list acme/lib 1.0.0',
      'delete 204',
      'restore 1.0.0 ',
      'error 5 version not found',
    ])
  })
})
