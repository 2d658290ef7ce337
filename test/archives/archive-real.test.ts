import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkZip } from '../../src/archives/check-zip.ts'
import { has } from '../support/requires.ts'
import { aZip } from '../support/zip.ts'

const json = '{"name":"acme/lib","autoload":{"psr-4":{"Acme\\\\":"src/"}}}'

let directory: string
const inDirectory = (...segments: string[]) => join(directory, ...segments)
const run = (program: string, args: string[], cwd: string) =>
  execFileSync(program, args, {
    cwd,
    encoding: 'utf8',
    stdio: 'pipe',
    env: { ...process.env, COMPOSER_ALLOW_SUPERUSER: '1' },
  })

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'archive-real-'))
  const files = {
    'composer.json': json,
    'src/Lib.php': '<?php\n'.repeat(500),
    'src/é.php': 'x',
    'bin/lib': '#!/bin/sh\n',
  }
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(inDirectory('lib', name)), { recursive: true })
    writeFileSync(inDirectory('lib', name), content)
  }
  chmodSync(inDirectory('lib/bin/lib'), 0o755)
  symlinkSync('../src/Lib.php', inDirectory('lib/bin/link.php'))
})
afterAll(() => rmSync(directory, { recursive: true }))

describe('checkZip accepts what is written by', () => {
  it.skipIf(!has('zip')).each([
    ['zip', ['-qry', '../zip.zip', '.'], 'zip.zip'],
    ['zip, without directories', ['-qryD', '../files.zip', '.'], 'files.zip'],
    ['zip, as zip64', ['-qry', '-fz', '../zip64.zip', '.'], 'zip64.zip'],
  ])('%s', async (_, args, name) => {
    run('zip', args, inDirectory('lib'))
    expect((await checkZip(inDirectory(name))).manifest.toString()).toBe(json)
  })

  it.skipIf(!has('zip'))('zip, into a pipe', async () => {
    run('sh', ['-c', 'zip -qr - lib | cat > pipe.zip'], directory)
    expect(await checkZip(inDirectory('pipe.zip'))).toMatchObject({ manifestPath: 'lib/composer.json' })
  })

  it.skipIf(!has('git'))('git archive', async () => {
    run(
      'sh',
      ['-c', 'git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm a'],
      inDirectory('lib'),
    )
    run('git', ['archive', '--prefix=lib/', '-o', '../git.zip', 'HEAD'], inDirectory('lib'))
    expect(await checkZip(inDirectory('git.zip'))).toMatchObject({
      manifestPath: 'lib/composer.json',
      entryCount: 8,
    })
    rmSync(inDirectory('lib/.git'), { recursive: true })
  })

  it.skipIf(!has('composer'))('composer archive', async () => {
    writeFileSync(inDirectory('lib/.env'), 'A=1')
    run('composer', ['archive', '--format=zip', '--dir=..', '--file=composer'], inDirectory('lib'))
    rmSync(inDirectory('lib/.env'))
    const checked = await checkZip(inDirectory('composer.zip'))
    expect(checked.manifest.toString()).toBe(json)
    expect(checked.warnings).toContain('".env" may contain secrets')
  })

  it.skipIf(!has('python3'))('python, from a stream', async () => {
    const script = `
import io, sys, zipfile
class Pipe(io.RawIOBase):
    def writable(self): return True
    def write(self, b): return sys.stdout.buffer.write(b)
with zipfile.ZipFile(Pipe(), 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('composer.json', sys.argv[1])`
    writeFileSync(inDirectory('python.zip'), execFileSync('python3', ['-c', script, json]))
    expect((await checkZip(inDirectory('python.zip'))).manifest.toString()).toBe(json)
  })
})

describe('aZip', () => {
  it.skipIf(!has('unzip'))('writes what unzip reads', () => {
    writeFileSync(inDirectory('a.zip'), aZip({ 'lib/': '', 'lib/composer.json': json, 'lib/é.php': 'x' }))
    run('unzip', ['-q', 'a.zip', '-d', 'unzipped'], directory)
    expect(readFileSync(inDirectory('unzipped/lib/composer.json'), 'utf8')).toBe(json)
    expect(readFileSync(inDirectory('unzipped/lib/é.php'), 'utf8')).toBe('x')
  })

  it.skipIf(!has('composer')).each([
    ['at the top', { 'composer.json': json, 'src/A.php': 'x' }, 'composer.json'],
    [
      'in a single folder',
      { '.DS_Store': 'x', 'lib/composer.json': json, 'lib/src/A.php': 'x' },
      'lib/composer.json',
    ],
  ])('writes a package that Composer installs, composer.json %s', async (_, files, manifestPath) => {
    const zip = inDirectory(`${manifestPath.replace('/', '-')}.zip`)
    writeFileSync(zip, aZip(files))
    expect(await checkZip(zip)).toMatchObject({ manifestPath })
    const project = mkdtempSync(inDirectory('project-'))
    const definition = { name: 'acme/lib', version: '1.0.0', dist: { type: 'zip', url: zip } }
    const repositories = [{ type: 'package', package: definition }, { 'packagist.org': false }]
    writeFileSync(
      join(project, 'composer.json'),
      JSON.stringify({ repositories, require: { 'acme/lib': '*' } }),
    )
    run('composer', ['update', '--no-interaction', '--no-audit'], project)
    expect(readFileSync(join(project, 'vendor/acme/lib/composer.json'), 'utf8')).toBe(json)
  })
})
