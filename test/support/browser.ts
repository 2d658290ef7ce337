import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll } from 'vitest'
import { has } from './requires.ts'

/** The path of Chromium in Debian's package. */
const executablePath = '/usr/bin/chromium'

/** Whether browser tests can run. */
export const hasBrowser = has('chromium')

/** A headless Chromium for one test file. Its profile is new, and deleted afterwards. */
export function useBrowser(): Pick<Browser, 'newContext'> & {
  newPage(options?: BrowserContextOptions): Promise<Page>
} {
  let browser: Browser
  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath,
      headless: true,
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    })
  })
  afterAll(async () => {
    await browser.close()
  })
  return {
    newContext: (options) => browser.newContext(options),
    /** Opens a page with separate cookies. */
    async newPage(options) {
      const context = await browser.newContext(options)
      context.setDefaultTimeout(60_000)
      return await context.newPage()
    },
  }
}
