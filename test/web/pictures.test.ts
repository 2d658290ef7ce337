import { describe, expect, it } from 'vitest'
import { pictureColors, pictureUrl } from '../../src/web/pictures.ts'
import { aGroup, anAccount, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'

describe('a generated picture', () => {
  const t = useApp()

  it.each([
    ['account', 'ann.berger', '<circle', 'AB'],
    ['group', 'acme', '<rect', 'A'],
    ['package', 'acme/http-client', '<path', 'HC'],
    ['application', 'Build <Bot>', '<rect', 'BB'],
    ['application', '<&>', '<rect', ''],
    ['account', 'øyvind', '<circle', 'Ø'],
  ] as const)('of the %s %s is a small SVG with its initials', async (kind, name, shape, initials) => {
    const { body, headers } = await t.app.inject(pictureUrl(kind, name))
    expect(headers['content-type']).toBe('image/svg+xml')
    expect(body).toContain(shape)
    expect(body).toContain(`>${initials}</text>`)
    expect(body.length).toBeLessThan(400)
    expect(body).not.toMatch(/<(?:script|image|style)|href|url\(/)
  })

  it('has the same color each time, is cached, and runs nothing when somebody opens it', async () => {
    const [one, two, other] = await Promise.all(
      ['ann', 'ann', 'bob'].map((name) => t.app.inject(pictureUrl('account', name))),
    )
    expect(one?.body).toBe(two?.body)
    expect(one?.body).not.toBe(other?.body)
    expect(one?.headers).toMatchObject({
      'cache-control': 'public, max-age=604800, immutable',
      'content-security-policy': "default-src 'none'; sandbox",
      'x-content-type-options': 'nosniff',
    })
    expect(one?.headers['set-cookie']).toBeUndefined()
  })

  it.each([
    '/assets/pictures/account/.svg',
    '/assets/pictures/account/ann',
    '/assets/pictures/person/ann.svg',
    '/assets/pictures/toString/ann.svg',
    '/assets/pictures/account/%00.svg',
    `/assets/pictures/account/${'a'.repeat(201)}.svg`,
  ])('does not exist at %.60s', async (url) => {
    expect((await t.app.inject(url)).statusCode).toBe(404)
  })

  it.each(pictureColors)(
    'in %s has enough contrast to its letters, and to a light and a dark page',
    (color) => {
      expect(contrast(color, '#ffffff')).toBeGreaterThanOrEqual(4.5)
      expect(contrast(color, '#fbfbfa')).toBeGreaterThanOrEqual(3)
      expect(contrast(color, '#1a1b1f')).toBeGreaterThanOrEqual(3)
    },
  )

  it('is beside the name of an account and a group on pages, and comes from this site', async () => {
    const account = await anAccount(t.db, { isAdmin: true })
    const group = await aGroup(t.db)
    const { body, headers } = await t.app.inject({
      url: `/${group.name}`,
      headers: { cookie: await signIn(t.app, account) },
    })
    expect(body).toContain(`src="${pictureUrl('account', account.username)}"`)
    expect(body).toContain(`src="${pictureUrl('group', group.name)}"`)
    expect(headers['content-security-policy']).toContain("img-src 'self' data:;")
  })
})

/** Returns the contrast of two colors (WCAG 2.2). */
function contrast(one: string, other: string): number {
  const luminance = (color: string) => {
    const [red = 0, green = 0, blue = 0] = [1, 3, 5]
      .map((at) => Number.parseInt(color.slice(at, at + 2), 16) / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
  }
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b)
  return (light + 0.05) / (dark + 0.05)
}
