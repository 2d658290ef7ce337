import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { has } from './requires.ts'

/**
 * The programs of Debian's packages. The first one has no interface for people, such as windows and an address bar: a test
 * needs a third less time of the processor with it.
 */
const program = ['chromium-headless-shell', 'chromium'].find((name) => has(name))

/**
 * Parts of Chromium that no test needs. The popups of the address bar are pages of their own: each new window loaded
 * two, which took more time of the processor than our pages. `RenderDocument` makes a new frame for each page of a tab,
 * which takes a quarter of the time of a page. The others are those that Playwright disables, because Chromium knows only
 * the last list.
 */
const disabledFeatures = [
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  'AimEnabled',
  'AvoidCorsURLLoaderRestartOnRedirect',
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsFirstBalancedModeAutoEnable',
  'HttpsUpgrades',
  'LensOverlay',
  'MediaRouter',
  'NetworkTimeServiceQuerying',
  'OptimizationHints',
  'PaintHolding',
  'PreconnectToSearch',
  'RenderDocument',
  'ThirdPartyStoragePartitioning',
]

/** Whether browser tests can run. */
export const hasBrowser = program !== undefined

/**
 * A headless Chromium for one test file. Its profile is new, and deleted afterwards. What a test opens is closed after the
 * test: open pages go on working, which took a third of the time of the processor. What `beforeAll` opens stays.
 */
export function useBrowser(): Pick<Browser, 'newContext'> & {
  newPage(options?: BrowserContextOptions): Promise<Page>
} {
  let browser: Browser
  let opened: BrowserContext[] = []
  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath: `/usr/bin/${program}`,
      headless: true,
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        `--disable-features=${disabledFeatures.join(',')}`,
        // A script runs too shortly in a page for what its optimization costs: a quarter of the time that axe takes.
        '--js-flags=--no-opt --no-maglev',
      ],
    })
  })
  beforeEach(() => {
    opened = []
  })
  afterEach(() => Promise.all(opened.map((context) => context.close())))
  afterAll(async () => {
    await browser.close()
  })
  async function newContext(options?: BrowserContextOptions): Promise<BrowserContext> {
    const context = await browser.newContext(options)
    opened.push(context)
    return context
  }
  return {
    newContext,
    /** Opens a page with separate cookies. */
    async newPage(options) {
      const context = await newContext(options)
      context.setDefaultTimeout(60_000)
      return await context.newPage()
    },
  }
}

/** Gives a browser the cookies of a Cookie header, such as that of a session, at this URL. */
export async function giveCookies(context: BrowserContext, url: string, cookie: string): Promise<void> {
  const pairs = cookie.split('; ').map((pair) => pair.split('='))
  await context.addCookies(pairs.map(([name = '', value = '']) => ({ name, value, url })))
}
