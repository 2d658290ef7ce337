import { describe, expect, it } from 'vitest'
import { checkAccess, checkNarrow } from '../support/axe.ts'
import { hasBrowser, useBrowser } from '../support/browser.ts'
import { freePort, useListeningApp } from '../support/listening.ts'
import { tourOf, walk } from '../support/tour.ts'
import { makeTourData, tourEnvironment } from '../support/tour-data.ts'

const port = await freePort()
const baseURL = `http://localhost:${port}`

describe.skipIf(!hasBrowser)('every page in its main states, in Chromium (chromium is needed)', () => {
  const t = useListeningApp(port, { ...tourEnvironment, BASE_URL: baseURL })
  const browser = useBrowser()

  it('passes axe in both color schemes, fits a phone, is small and has one stylesheet', async () => {
    const stops = tourOf(await makeTourData({ db: t.db, baseUrl: `http://127.0.0.1:${port}` }))
    await walk({ browser, baseURL, width: 1280 }, stops, async (page, { name }, { status, html }) => {
      expect(status === 404, `${name} has the status ${status}`).toBe(name.startsWith('not-found'))
      expect(status, name).toBeLessThan(500)
      expect(Buffer.byteLength(html), `the HTML of ${name}`).toBeLessThan(100_000)
      expect(html.match(/<link rel="stylesheet"|<style/g), `stylesheets of ${name}`).toHaveLength(1)
      await page.emulateMedia({ colorScheme: 'light' })
      await checkAccess(page, `${name} in light`)
      // Nothing but colors differs in the other scheme.
      await page.emulateMedia({ colorScheme: 'dark' })
      await checkAccess(page, `${name} in dark`, ['color-contrast'])
      await checkNarrow(page, name)
      if (name.endsWith('-refused')) expect(await page.getByRole('alert').count(), name).toBeGreaterThan(0)
    })
  }, 600_000)
})
