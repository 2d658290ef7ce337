import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { version } from '../../src/version.ts'
import { checkAccess, checkColors } from '../support/axe.ts'
import { hasBrowser, useBrowser } from '../support/browser.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { type Stop, tour, walk } from '../support/tour.ts'
import { makeTourData, type TourData, tourEnvironment } from '../support/tour-data.ts'

/** Home, the pages of a sign-in, the pages that lead to an application, and errors: pages without breadcrumbs. */
const withoutBreadcrumbs =
  /^(?:front|home|home-newcomer|menu|login.*|sign-up.*|password-reset.*|second-step|unsubscribe.*|confirm-access.*|invitation|invitation-expired|consent.*|device.*|logout|link-error|not-found.*|version-deleted|bad-request)$/

/**
 * What the checks need of the open page, at its current width. With `isLarge`, also with text of twice the size (WCAG
 * 1.4.4). It is one request, with `page.evaluate`: each takes time of the processor. Locators take more than one, and
 * load half a megabyte of Playwright's scripts into the page.
 */
function readPage(page: Page, isLarge = false) {
  return page.evaluate((isLarge) => {
    const { style } = document.documentElement
    const all = (selector: string) => [...document.querySelectorAll(selector)]
    const overflow = () => document.documentElement.scrollWidth - window.innerWidth
    const isVisible = (element: Element) => element.checkVisibility({ visibilityProperty: true })

    const seen = {
      /** For each problem of a form, whether it is on the part of the page that the browser shows. */
      problems: all('[role="alert"]')
        .filter((alert) => isVisible(alert) && !alert.closest('[aria-hidden="true"]'))
        .map((alert) => {
          const { top, bottom } = alert.getBoundingClientRect()
          return top >= 0 && bottom <= window.innerHeight
        }),
      breadcrumbs: all('nav[aria-label="Breadcrumb"] a[href]')
        .filter(isVisible)
        .map((link) => link.getAttribute('href') ?? ''),
      activeItems: all('header nav [aria-current], header summary[aria-current]').map((item) =>
        item.textContent?.replace('Menu of ', ''),
      ),
      /** The word before each time, and the text of the time. */
      times: all('time').map((time) => {
        const label = time.closest('dd')?.previousElementSibling?.textContent
        const text = time.previousSibling?.textContent ?? label ?? ''
        return [/(\w+)\s*$/.exec(text)?.[1] ?? '', time.textContent ?? '']
      }),
      /** The commands that their button to copy covers, or whose lines wrap. */
      brokenCommands: all('.copyable').flatMap((frame) => {
        const [block, button] = [frame.querySelector('pre'), frame.querySelector('button')]
        if (!block || !button) return ['no button']
        const [text, covering] = [block.getBoundingClientRect(), button.getBoundingClientRect()]
        const isBeside = covering.left >= text.right && covering.right <= frame.getBoundingClientRect().right
        // A text for people wraps. A command does not: people would copy line breaks.
        const isWrapped = !block.matches('.wrapped') && getComputedStyle(block).whiteSpace !== 'pre'
        return isBeside && !isWrapped ? [] : [block.textContent]
      }),
      /** The current links of the tabs and of the main menu that are out of view. */
      hiddenTabs: all('.tabs [aria-current]').flatMap((link) => {
        const row = link.closest('nav')?.getBoundingClientRect()
        const { left, right } = link.getBoundingClientRect()
        return row && left >= row.left - 1 && right <= row.right + 1 ? [] : [link.textContent]
      }),
      /** The buttons, fields, tables and figures that touch a hint or a choice above them. */
      touching: all('main :is(p.hint, label.choice)').flatMap((above) => {
        const block = above.nextElementSibling
        if (!block?.matches('button, .button, .field, .row, table, figure')) return []
        if (!above.checkVisibility() || !block.checkVisibility()) return []
        const gap = block.getBoundingClientRect().top - above.getBoundingClientRect().bottom
        return gap < 8 ? [`${gap} px above ${block.outerHTML.slice(0, 80)}`] : []
      }),
      height: document.documentElement.scrollHeight,
      overflow: overflow(),
    }
    if (!isLarge) return { ...seen, large: null }
    style.fontSize = '200%'
    const fields = all('main form.search input[type="search"]')
    const narrowFields = fields.filter((field) => field.getBoundingClientRect().width < 150).length
    const large = { overflow: overflow(), narrowFields }
    style.fontSize = ''
    return { ...seen, large }
  }, isLarge)
}

type Seen = Awaited<ReturnType<typeof readPage>>

/**
 * Checks that a page has breadcrumbs, and that the header marks the item to which the page belongs. `known` are the
 * links that were opened before.
 */
async function checkPlace(
  page: Page,
  { name, viewer }: Stop,
  { breadcrumbs, activeItems }: Seen,
  known: Set<string>,
): Promise<void> {
  const { pathname } = new URL(page.url())
  if (withoutBreadcrumbs.test(name)) expect(breadcrumbs, `breadcrumbs of ${name}`).toEqual([])
  else expect(breadcrumbs.length, `breadcrumbs of ${name}`).toBeGreaterThan(0)
  for (const link of breadcrumbs.filter((one) => !known.has(`${viewer} ${one}`))) {
    known.add(`${viewer} ${link}`)
    expect((await page.request.get(link)).status(), `${link} in the breadcrumbs of ${name}`).toBe(200)
  }
  const isSignedIn = viewer !== 'visitor' || name === 'totp-replace'
  const item = isSignedIn ? itemOf(name, pathname) : null
  expect(activeItems, `active items of ${name}`).toEqual(item === null ? [] : [item ?? expect.any(String)])
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

/** The pages of forms, as they are opened. */
const forms =
  /^(?!.*-(?:refused|complete)$)(?:new-|.*-new(?:-single)?$|admin-application-edit|settings$|upstream-(?:change|approve|claim)|group-second-factor)/
/** About two screens of a phone. Parts that most people leave as they are fold, so forms stay shorter. */
const maxFormHeight = 1_600

/**
 * Checks that a page fits narrow screens, the wider one with large text, too. On a phone, forms are short. At each width,
 * the commands keep their lines, hints have space below them, and the tabs and the main menu show their current link.
 */
async function checkNarrow(page: Page, name: string): Promise<void> {
  for (const width of [320, 375]) {
    const what = `${name} at ${width} px`
    await page.setViewportSize({ width, height: 740 })
    const seen = await readPage(page, width === 375)
    const { height, large } = seen
    expect(seen.overflow, what).toBeLessThanOrEqual(0)
    expect(seen.brokenCommands, `commands of ${what}`).toEqual([])
    expect(seen.touching, `blocks of ${what}`).toEqual([])
    expect(seen.hiddenTabs, `current links of ${what} that are out of view`).toEqual([])
    if (!large) continue
    if (forms.test(name)) expect(height, `the height of ${what}`).toBeLessThanOrEqual(maxFormHeight)
    expect(large.overflow, `${name} with text of twice the size`).toBeLessThanOrEqual(0)
    expect(large.narrowFields, `search fields of ${name} with text of twice the size`).toBe(0)
  }
}

/** Checks that times in sentences read right: “expires on 3 May”, or “in 7 hours” with scripts. */
function checkTimes({ times }: Seen, html: string, what: string): void {
  const served = [...html.matchAll(/([\w)“”]+) <time [^>]*>([^<]*)/g)].map(([, before, time]) => [
    before,
    time,
  ])
  expect(
    served.filter(([before = '', time = '']) => isPreposition(before) || !time.startsWith('on ')),
    `times of ${what}`,
  ).toEqual([])
  expect(
    times.filter(([word = '']) => isPreposition(word)),
    `times of ${what} with scripts`,
  ).toEqual([])
}

const isPreposition = (word: string) => /^(?:until|on|at|since|from|before|after|by)$/i.test(word)

const port = await freePort()
const baseURL = `http://localhost:${port}`

describe.skipIf(!hasBrowser)('every page in its main states, in Chromium (chromium is needed)', () => {
  const t = useListeningApp(port, { ...tourEnvironment, BASE_URL: baseURL })
  const browser = useBrowser()
  const knownLinks = new Set<string>()
  const knownLooks = new Set<string>()
  const schemes = new WeakMap<Page, 'light' | 'dark'>()
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
        const seen = await readPage(page)
        if (name.endsWith('-refused'))
          expect(seen.problems, `the problem of ${name} is visible`).toContain(true)
        expect(status === 404, `${name} has the status ${status}`).toBe(name.startsWith('not-found'))
        expect(status, name).toBeLessThan(500)
        expect(Buffer.byteLength(html), `the HTML of ${name}`).toBeLessThan(120_000)
        // A page may have the version of a package, too.
        expect(html, `the footer of ${name}`).toContain(`<li>svc ${version}</li>`)
        expect(html.match(/<link rel="stylesheet"|<style/g), `stylesheets of ${name}`).toHaveLength(1)
        expect(seen.brokenCommands, `commands of ${name}`).toEqual([])
        // After an act, the page differs from the one that was served.
        checkTimes(seen, stop.act ? '' : html, name)
        await checkPlace(page, stop, seen, knownLinks)
        // It starts with the scheme of the tab's page before: a change takes as long as a check.
        const first = schemes.get(page) ?? 'light'
        const second = first === 'light' ? 'dark' : 'light'
        await checkAccess(page, `${name} in ${first}`, knownLooks)
        await page.emulateMedia({ colorScheme: second })
        schemes.set(page, second)
        // Only the colors differ in the other scheme.
        await checkColors(page, `${name} in ${second}`, knownLooks)
        await checkNarrow(page, name)
      })
    },
    600_000,
  )
})
