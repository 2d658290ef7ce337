import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium, type Page } from 'playwright-core'
import { type Stop, tour, walk } from '../test/support/tour.ts'
import { makeTourData, tourEnvironment } from '../test/support/tour-data.ts'
import { startServer } from './server.ts'

/** A program that Debian has as a package of its own: the tests prefer it, too. */
const headlessShell = '/usr/bin/chromium-headless-shell'

const help = `Usage: npm run screenshots -- [folder] [page…]
       npm run screenshots -- --readme

Makes pictures of every page in its main states, as <folder>/<page>-<width>-<scheme>.png, for people to look at. The
folder is "screenshots" unless another is given; with names of pages, only these. --readme makes only the two pictures
of the README, below docs/images/.`
const words = process.argv.slice(2)
const isForReadme = words.includes('--readme')
const [given, ...names] = words.filter((word) => !word.startsWith('--'))
const folder = isForReadme ? 'docs/images' : (given ?? 'screenshots')
const widths = isForReadme ? [1280] : [375, 1280]
const schemes = isForReadme ? (['light'] as const) : (['light', 'dark'] as const)
const wanted = isForReadme ? ['repository', 'consent'] : names

if (words.includes('--help')) process.stdout.write(`${help}\n`)
else await takeAll()

async function takeAll(): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'svc-screenshots-'))
  await mkdir(folder, { recursive: true })
  // Passkeys need a host name.
  const settings = (port: number) => ({ BASE_URL: `http://localhost:${port}`, ...tourEnvironment })
  const server = await startServer(work, isForReadme ? undefined : settings)
  const baseURL = isForReadme ? server.baseUrl : `http://localhost:${server.port}`
  const browser = await chromium.launch({
    executablePath: existsSync(headlessShell) ? headlessShell : '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  })
  try {
    const data = await makeTourData(server)
    const stops = Object.values(tour).flatMap((part) => part(data))
    const shown = wanted.length === 0 ? stops : stops.filter(({ name }) => wanted.includes(name))
    // A page is opened at the narrow width, and then shown wider: some states can be reached only once.
    const at = { browser, baseURL, width: widths[0] as number }
    await walk(at, shown, shoot)
  } finally {
    await browser.close()
    await server.stop()
    await rm(work, { recursive: true, force: true, maxRetries: 5 })
  }
}

async function shoot(page: Page, { name }: Stop): Promise<void> {
  for (const width of widths) {
    await page.setViewportSize({ width, height: 800 })
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme })
      // Pictures of a README are loaded when they come into view.
      await page.evaluate(() =>
        Promise.allSettled(
          [...document.images].map((image) => {
            image.loading = 'eager'
            return image.decode()
          }),
        ),
      )
      const suffix = isForReadme ? '' : `-${width}-${colorScheme}`
      await page.screenshot({ path: join(folder, `${name}${suffix}.png`), fullPage: !isForReadme })
    }
  }
}
