import { describe, expect, it } from 'vitest'
import { guessForge, hookPageOf } from '../../src/sources/forges.ts'

describe('the Git server of a URL', () => {
  it.each([
    ['https://github.com/acme/lib.git', 'github', 'https://github.com/acme/lib/settings/hooks/new'],
    [
      'ssh://git@gitlab.example.com:2222/acme/a/lib.git',
      'gitlab',
      'https://gitlab.example.com/acme/a/lib/-/hooks',
    ],
    ['https://codeberg.org/acme/lib/', 'forgejo', 'https://codeberg.org/acme/lib/settings/hooks'],
    ['https://git.example.com:8443/acme/lib', null, 'https://git.example.com:8443/acme/lib/settings/hooks'],
    ['ssh://git@bitbucket.org/acme/lib.git', 'bitbucket', 'https://bitbucket.org/acme/lib/admin/webhooks'],
  ] as const)('of %s is guessed from its host, and has a page for hooks', (url, forge, page) => {
    expect(guessForge(url)).toBe(forge)
    expect(hookPageOf(forge ?? 'forgejo', url)).toBe(page)
  })
})
