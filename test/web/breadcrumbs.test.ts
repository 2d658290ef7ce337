import { expect, it } from 'vitest'
import { trailTo } from '../../src/web/breadcrumbs.ts'

it.each([
  ['/settings/tokens?after=5', ['/settings/tokens Tokens']],
  ['/settings/account#tokens', ['/settings/account Account']],
  ['/settings/second-factor/totp', ['/settings/second-factor Second factor']],
  ['/admin', ['/admin Administration']],
  ['/admin/invitations', ['/admin Administration', '/admin/invitations Invitations']],
  ['/admin/accounts/ann', ['/admin Administration', '/admin/accounts Accounts', '/admin/accounts/ann ann']],
  ['/admin/accounts/-/new', ['/admin Administration', '/admin/accounts Accounts']],
  ['/admin/applications/x7', ['/admin Administration', '/admin/applications Applications']],
  ['/acme', ['/acme acme']],
  ['/acme/-/deploy-tokens', ['/acme acme', '/acme/-/deploy-tokens Deploy tokens']],
  ['/acme/php/-/upload/12', ['/acme acme', '/acme/php php', '/acme/php/-/upload Upload']],
  [
    '/acme/php/packages/acme/lib/-/versions',
    [
      '/acme acme',
      '/acme/php php',
      '/acme/php/packages/acme/lib acme/lib',
      '/acme/php/packages/acme/lib/-/versions Versions',
    ],
  ],
])('the breadcrumbs below %s', (url, trail) => {
  expect(trailTo(url).map((crumb) => `${crumb.url} ${crumb.words}`)).toEqual(trail)
})
