import { readFile } from 'node:fs/promises'
import type { BrowserContext, Page } from 'playwright-core'
import { expect } from 'vitest'
import { listLooks } from './text-looks.ts'

const axe = await readFile('node_modules/axe-core/axe.min.js', 'utf8')
/** What the pages of a prepared context have: a function that loads axe, and what `findProblems` needs. */
const script = `window.loadAxe = () => {${axe}}; window.listLooks = ${listLooks.toString()}`

/** The contexts whose pages have the script. */
const prepared = new WeakSet<BrowserContext>()

/**
 * Runs the script in the open page. The first call in a context sends it to the browser for all later pages: sending its
 * half megabyte to each page takes more than loading it.
 */
async function prepare(page: Page): Promise<void> {
  await page.evaluate(script)
  const context = page.context()
  if (prepared.has(context)) return
  prepared.add(context)
  await context.addInitScript(script)
}

/** The rules that compare the colors of texts and of what is behind them. They take two thirds of the time of axe. */
const colorRules = ['color-contrast', 'link-in-text-block']

/** What axe finds in a page, and the looks of the texts that have passed the rules for colors. */
interface Found {
  problems: string[]
  passed: string[]
}

/**
 * Runs axe in the open page: the rules for colors for the texts whose looks are not known, and with `isAll` the other
 * rules. Null if the page has no script. Each request to the browser takes time of the processor, also of the test: one
 * does it all.
 */
async function findProblems(page: Page, known: Set<string>, isAll: boolean): Promise<Found | null> {
  return await page.evaluate(
    async ({ lines, isAll, colorRules }) => {
      interface Result {
        id: string
        nodes: { html: string; element: Element }[]
      }
      type Run = (
        context: Document | { include: Element[] },
        options: object,
      ) => Promise<{ violations: Result[]; passes: Result[] }>
      const own = window as unknown as {
        loadAxe?: () => void
        listLooks: () => Map<string, Element[]>
        axe?: { run: Run }
      }
      if (!own.loadAxe) return null
      // After a change of the color scheme, Swagger UI fades from one color to the other.
      for (const animation of document.getAnimations())
        if (animation instanceof CSSTransition) animation.finish()
      const known = new Set(lines.split('\n'))
      const fresh = [...own.listLooks()].filter(([look]) => !known.has(look))
      const found: Found = { problems: [], passed: [] }
      if (!own.axe && (isAll || fresh.length > 0)) own.loadAxe()
      const run: Run = async (context, options) => {
        // Without this option, axe also computes a CSS selector of each element.
        const results = await (own.axe as { run: Run }).run(context, { selectors: false, ...options })
        for (const { id, nodes } of results.violations)
          found.problems.push(`${id}: ${nodes.map(({ html }) => html).join(' ')}`)
        return results
      }
      if (isAll) {
        const others = Object.fromEntries(colorRules.map((id) => [id, { enabled: false }]))
        await run(document, { resultTypes: ['violations'], rules: others })
      }
      if (fresh.length > 0) {
        const options = { resultTypes: ['violations', 'passes'], elementRef: true, runOnly: colorRules }
        const { passes } = await run({ include: fresh.flatMap(([, elements]) => elements) }, options)
        const passing = (rule: string) =>
          new Set(
            passes
              .filter(({ id }) => id === rule)
              .flatMap(({ nodes }) => nodes.map(({ element }) => element)),
          )
        const [contrast, links] = colorRules.map(passing)
        found.passed = fresh
          .filter(([look, elements]) =>
            elements.some((one) => contrast?.has(one) && (links?.has(one) || !look.includes('| in text'))),
          )
          .map(([look]) => look)
      }
      return found
    },
    // One text: Playwright takes longer to send hundreds.
    { lines: [...known].join('\n'), isAll, colorRules },
  )
}

/**
 * Checks the open page with axe, in the color scheme that it has now. `known` are the looks of texts that have passed the
 * rules for colors in other pages: each is checked once. Those that pass are added.
 */
export async function checkAccess(page: Page, what: string, known = new Set<string>()): Promise<void> {
  await check(page, what, known, true)
}

/** Like `checkAccess`, but only the rules for colors. */
export async function checkColors(page: Page, what: string, known: Set<string>): Promise<void> {
  await check(page, what, known, false)
}

async function check(page: Page, what: string, known: Set<string>, isAll: boolean): Promise<void> {
  let found = await findProblems(page, known, isAll)
  if (!found) {
    await prepare(page)
    found = await findProblems(page, known, isAll)
  }
  expect(found?.problems, what).toEqual([])
  for (const look of found?.passed ?? []) known.add(look)
}
