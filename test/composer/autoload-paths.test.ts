import { describe, expect, it } from 'vitest'
import { refuseMissingAutoload } from '../../src/composer/composer-json.ts'
import type { JsonObject } from '../../src/composer/manifest-json.ts'
import { useApp } from '../support/app.ts'
import { checkZipOf } from '../support/check-zip.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { craftZip } from '../support/zip.ts'

const zip = craftZip([
  { name: 'lib/composer.json', content: '{"name":"acme/lib"}' },
  { name: 'lib/src/a.php', content: '<?php' },
  { name: 'lib/current', content: 'src', mode: 0o120777 },
])

async function refusal(autoload: JsonObject, more: JsonObject = {}): Promise<unknown> {
  const { tree } = await checkZipOf(zip)
  try {
    refuseMissingAutoload({ autoload, ...more }, tree)
    return null
  } catch (error) {
    return error
  }
}

describe('refuseMissingAutoload', () => {
  it.each<JsonObject>([
    { files: ['src/a.php', './src//a.php', '/src/a.php', 'src/../src/a.php'] },
    { files: ['current/a.php', 'current'] },
    { classmap: ['src', 'src/', 'src/a.php', '', '.', 'current/b', '*/b', 'b*'] },
    { 'psr-4': { 'B\\': 'b/', 'C\\': '../c' }, 'psr-0': { '': 'b/' }, 'exclude-from-classmap': ['b'] },
  ])('accepts %j', async (autoload) => {
    expect(await refusal(autoload)).toBeNull()
  })

  it.each<[key: string, path: string]>([
    ['files', 'b.php'],
    ['files', 'src'],
    ['files', ''],
    ['files', 'src/a.php/b.php'],
    ['files', 'src/A.php'],
    ['files', 'lib/src/a.php'],
    ['files', '../lib/src/a.php'],
    ['files', 'src/../../src/a.php'],
    ['files', 'b/../src/a.php'],
    ['classmap', 'b/'],
    ['classmap', '../'],
    ['classmap', 'src/[a'],
  ])('refuses %s with %j', async (key, path) => {
    const errmsg = `composer.json: autoload.${key} names "${path}", which the archive does not contain`
    expect(await refusal({ [key]: ['src/a.php', path] })).toMatchObject({ errcode: 3, errmsg })
  })

  it('accepts missing paths that Composer does not load, or looks for in two places', async () => {
    expect(await refusal({ files: ['b.php'] }, { type: 'metapackage' })).toBeNull()
    expect(await refusal({ files: ['b.php'] }, { 'target-dir': 'b' })).toBeNull()
  })
})

describe('PUT upload/<vendor>/<package>/<version>', () => {
  const t = useApp()
  it('refuses a package whose updates would fail in the projects that use it', async () => {
    const { push } = await aPublisher(t)
    const response = await push('1.0.0', { manifest: { autoload: { files: ['src/functions.php'] } } })
    expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
    const good = await push('1.0.0', { manifest: { autoload: { files: ['src/Lib.php'] } } })
    expect(good.statusCode).toBe(201)
  })
})
