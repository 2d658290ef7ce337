import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { version } from '../../src/version.ts'
import { checkAccess, checkColors, checkNarrow } from '../support/axe.ts'
import { hasBrowser, useBrowser } from '../support/browser.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { type Stop, tour, walk } from '../support/tour.ts'
import { makeTourData, type TourData, tourEnvironment } from '../support/tour-data.ts'

/** Home, the pages of a sign-in, the pages that lead to an application, and errors: pages without breadcrumbs. */
const withoutBreadcrumbs =
  /^(?:front|home|home-newcomer|menu|login.*|sign-up.*|password-reset.*|second-step|unsubscribe.*|confirm-access.*|invitation|invitation-expired|consent.*|device.*|logout|link-error|not-found.*|version-deleted|bad-request)$/

// The checks of each page ask the browser once, with `page.evaluate`. Locators take more than one request, and load half a
// megabyte of Playwright's scripts into the page.

/**
 * Checks that a page has breadcrumbs, and that the header marks the item to which the page belongs. `known` are the
 * links that were opened before.
 */
async function checkPlace(page: Page, { name, viewer }: Stop, known: Set<string>): Promise<void> {
  const { links, active } = await page.evaluate(() => ({
    links: [...document.querySelectorAll('nav[aria-label="Breadcrumb"] a[href]')]
      .filter((link) => link.checkVisibility({ visibilityProperty: true }))
      .map((link) => link.getAttribute('href') ?? ''),
    active: [...document.querySelectorAll('header nav [aria-current], header summary[aria-current]')].map(
      (item) => item.textContent?.replace('Menu of ', ''),
    ),
  }))
  const { pathname } = new URL(page.url())
  if (withoutBreadcrumbs.test(name)) expect(links, `breadcrumbs of ${name}`).toEqual([])
  else expect(links.length, `breadcrumbs of ${name}`).toBeGreaterThan(0)
  for (const link of links.filter((one) => !known.has(`${viewer} ${one}`))) {
    known.add(`${viewer} ${link}`)
    expect((await page.request.get(link)).status(), `${link} in the breadcrumbs of ${name}`).toBe(200)
  }
  const isSignedIn = viewer !== 'visitor' || name === 'totp-replace'
  const item = isSignedIn ? itemOf(name, pathname) : null
  expect(active, `active items of ${name}`).toEqual(item === null ? [] : [item ?? expect.any(String)])
}

/** Returns the item of the header for a page: null for none, undefined for the menu with the name of the person. */
function itemOf(name: string, path: string): string | null | undefined {
  if (
    /^(?:not-found|version-deleted|bad-request|consent|device|link-error|logout)/.test(name) ||
    path === '/search' ||
    path === '/status'
  )
    return null
  if (path.startsWith('/settings/tokens')) return 'Tokens'
  if (path.startsWith('/settings/authorizations')) return 'Applications'
  if (path.startsWith('/settings/')) return undefined
  if (path.startsWith('/admin')) return 'Administration'
  return path.startsWith('/docs') ? 'Docs' : 'Repositories'
}

/** Checks that no button that copies covers a command, and that commands keep their lines, at the current width. */
async function checkCommands(page: Page, what: string): Promise<void> {
  const broken = await page.evaluate(() =>
    [...document.querySelectorAll('.copyable')].flatMap((frame) => {
      const [block, button] = [frame.querySelector('pre'), frame.querySelector('button')]
      if (!block || !button) return ['no button']
      const [text, covering] = [block.getBoundingClientRect(), button.getBoundingClientRect()]
      const isBeside = covering.left >= text.right && covering.right <= frame.getBoundingClientRect().right
      // A text for people wraps. A command does not: people would copy line breaks.
      const isWrapped = !block.matches('.wrapped') && getComputedStyle(block).whiteSpace !== 'pre'
      return isBeside && !isWrapped ? [] : [block.textContent]
    }),
  )
  expect(broken, `commands of ${what}`).toEqual([])
}

/** The pages of forms, as they are opened. */
const forms =
  /^(?!.*-(?:refused|complete)$)(?:new-|.*-new(?:-single)?$|admin-application-edit|settings$|upstream-(?:change|approve|claim)|group-second-factor)/
/** About two screens of a phone. Parts that most people leave as they are fold, so forms stay shorter. */
const maxFormHeight = 1_600

/** Checks that a form is short on a phone, and that the tabs and the main menu show their current link. */
async function checkPhone(page: Page, what: string, isForm: boolean): Promise<void> {
  const { height, hidden } = await page.evaluate(() => ({
    height: document.documentElement.scrollHeight,
    hidden: [...document.querySelectorAll('.tabs [aria-current]')].flatMap((link) => {
      const row = link.closest('nav')?.getBoundingClientRect()
      const { left, right } = link.getBoundingClientRect()
      return row && left >= row.left - 1 && right <= row.right + 1 ? [] : [link.textContent]
    }),
  }))
  if (isForm) expect(height, `the height of ${what}`).toBeLessThanOrEqual(maxFormHeight)
  expect(hidden, `current links of ${what} that are out of view`).toEqual([])
}

/** Checks that a hint or a choice does not touch the button, field, table or figure below it, at the current width. */
async function checkSpace(page: Page, what: string): Promise<void> {
  const touching = await page.evaluate(() =>
    [...document.querySelectorAll('main :is(p.hint, label.choice)')].flatMap((above) => {
      const block = above.nextElementSibling
      if (!block?.matches('button, .button, .field, .row, table, figure')) return []
      if (!above.checkVisibility() || !block.checkVisibility()) return []
      const gap = block.getBoundingClientRect().top - above.getBoundingClientRect().bottom
      return gap < 8 ? [`${gap} px above ${block.outerHTML.slice(0, 80)}`] : []
    }),
  )
  expect(touching, `blocks of ${what}`).toEqual([])
}

/** Checks that times in sentences read right: “expires on 3 May”, or “in 7 hours” with scripts. */
async function checkTimes(page: Page, html: string, what: string): Promise<void> {
  const served = [...html.matchAll(/([\w)“”]+) <time [^>]*>([^<]*)/g)].map(([, before, time]) => [
    before,
    time,
  ])
  expect(
    served.filter(([before = '', time = '']) => isPreposition(before) || !time.startsWith('on ')),
    `times of ${what}`,
  ).toEqual([])
  const before = await page.evaluate(() =>
    [...document.querySelectorAll('time')].map((time) => {
      const label = time.closest('dd')?.previousElementSibling?.textContent
      const text = time.previousSibling?.textContent ?? label ?? ''
      return [/(\w+)\s*$/.exec(text)?.[1] ?? '', time.textContent ?? '']
    }),
  )
  expect(
    before.filter(([word = '']) => isPreposition(word)),
    `times of ${what} with scripts`,
  ).toEqual([])
}

/** Checks that a refused form shows its problem, on the part of the page that the browser shows. */
async function checkProblem(page: Page, name: string): Promise<void> {
  const places = await page.getByRole('alert').evaluateAll((alerts) =>
    alerts.map((alert) => {
      const { top, bottom } = alert.getBoundingClientRect()
      return top >= 0 && bottom <= window.innerHeight
    }),
  )
  expect(places, `the problem of ${name} is visible`).toContain(true)
}

const isPreposition = (word: string) => /^(?:until|on|at|since|from|before|after|by)$/i.test(word)

const port = await freePort()
const baseURL = `http://localhost:${port}`

describe.skipIf(!hasBrowser)('every page in its main states, in Chromium (chromium is needed)', () => {
  const t = useListeningApp(port, { ...tourEnvironment, BASE_URL: baseURL })
  const browser = useBrowser()
  const knownLinks = new Set<string>()
  const knownLooks = new Set<string>()
  let data: TourData
  beforeAll(async () => {
    data = await makeTourData({ db: t.db, baseUrl: `http://127.0.0.1:${port}` })
  })

  it.each(Object.keys(tour))(
    'passes axe in both color schemes, fits a phone, is small and has one stylesheet: those %s',
    async (part) => {
      const stops = tour[part]?.(data) ?? []
      await walk({ browser, baseURL, width: 1280 }, stops, async (page, stop, { status, html }) => {
        const { name } = stop
        if (name.endsWith('-refused')) await checkProblem(page, name)
        expect(status === 404, `${name} has the status ${status}`).toBe(name.startsWith('not-found'))
        expect(status, name).toBeLessThan(500)
        expect(Buffer.byteLength(html), `the HTML of ${name}`).toBeLessThan(120_000)
        // A page may have the version of a package, too.
        expect(html, `the footer of ${name}`).toContain(`<li>svc ${version}</li>`)
        expect(html.match(/<link rel="stylesheet"|<style/g), `stylesheets of ${name}`).toHaveLength(1)
        await checkAccess(page, `${name} in light`, knownLooks)
        // Only the colors differ in the other scheme.
        await page.emulateMedia({ colorScheme: 'dark' })
        await checkColors(page, `${name} in dark`, knownLooks)
        await checkCommands(page, name)
        await checkNarrow(page, name, async (where) => {
          await checkCommands(page, where)
          await checkSpace(page, where)
          await checkPhone(page, where, where.endsWith(' 375 px') && forms.test(name))
        })
        // After an act, the page differs from the one that was served.
        await checkTimes(page, stop.act ? '' : html, name)
        await checkPlace(page, stop, knownLinks)
      })
    },
    600_000,
  )
})
