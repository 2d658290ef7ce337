import type { Locator, Page } from 'playwright-core'

/**
 * Seconds of a person, from the Keystroke-Level Model (Card, Moran and Newell, 1980): think 1.35, point 1.1, press the mouse
 * 0.2, move the hand to the keyboard and back 0.8, and 0.28 for a key. A field takes a click and ten keys.
 */
const clickSeconds = 1.35 + 1.1 + 0.2
const fieldSeconds = clickSeconds + 0.8 + 10 * 0.28
/** The model knows no wheel: the distance to a place outside of the window takes as long as pointing. */
const scrollSeconds = 1.1

/** What a person did for a task. */
export interface Effort {
  clicks: number
  fields: number
  /** Places that were outside of the window. */
  scrolls: number
  /** Pages that were loaded. */
  pages: number
  /** The time of the person and the measured time of the server and the browser. */
  seconds: number
}

/** A person at a browser, who uses what the page shows. Each act is counted. */
export interface Person {
  page: Page
  /** Clicks what loads another page. The name is the beginning of a visible text, in whole words; the first one is used. */
  go(name: string, place?: 'body' | 'main'): Promise<void>
  /** Clicks what stays on the page: a choice, a menu, or what opens a question. */
  press(name: string): Promise<void>
  /** Clicks the button of a question, in a dialog or on a page of its own. */
  answer(name: string): Promise<void>
  /** Opens the URL of a link in a mail. */
  follow(url: string): Promise<void>
  fill(label: string, text: string): Promise<void>
  /** Opens a select and clicks an option. */
  choose(label: string, option: string): Promise<void>
  attach(label: string, file: { name: string; mimeType: string; buffer: Buffer }): Promise<void>
  /** Waits for the text that the task is about. */
  see(text: string): Promise<void>
  effort(): Effort
}

/** Returns a person at this page who has not done anything yet. */
export function aPerson(page: Page): Person {
  const done = { clicks: 0, fields: 0, scrolls: 0, pages: 0 }
  let waitedMs = 0

  async function timed<Value>(wait: () => Promise<Value>): Promise<Value> {
    const began = performance.now()
    const value = await wait()
    waitedMs += performance.now() - began
    return value
  }

  /** Returns what is meant as soon as it is visible. */
  async function find(meant: Locator): Promise<Locator> {
    const target = meant.filter({ visible: true }).first()
    await timed(() => target.waitFor())
    const isInView = await target.evaluate((element) => {
      const { top, bottom } = element.getBoundingClientRect()
      return top >= 0 && bottom <= innerHeight
    })
    if (!isInView) done.scrolls += 1
    await target.scrollIntoViewIfNeeded()
    return target
  }

  async function load(click: () => Promise<unknown>): Promise<void> {
    done.clicks += 1
    await timed(() => Promise.all([page.waitForEvent('load'), click()]))
    done.pages += 1
  }

  return {
    page,
    async go(name, place = 'body') {
      const target = await find(named(page.locator(place), name))
      await load(() => target.click())
    },
    async press(name) {
      const target = await find(named(page.locator('body'), name))
      done.clicks += 1
      await target.click()
    },
    async answer(name) {
      const target = await find(named(page.locator('[data-question]'), name))
      await load(() => target.click())
    },
    follow: (url) => load(() => page.goto(url)),
    async fill(label, text) {
      const field = await find(page.getByLabel(beginning(label)))
      done.fields += 1
      await field.fill(text)
    },
    async choose(label, option) {
      const field = await find(page.getByLabel(beginning(label)))
      done.clicks += 2
      await field.selectOption(option)
    },
    async attach(label, file) {
      const field = await find(page.getByLabel(beginning(label)))
      done.fields += 1
      await field.setInputFiles(file)
    },
    see: (text) => timed(() => page.getByText(text).filter({ visible: true }).first().waitFor()),
    effort: () => ({
      ...done,
      seconds:
        done.clicks * clickSeconds +
        done.fields * fieldSeconds +
        done.scrolls * scrollSeconds +
        waitedMs / 1000,
    }),
  }
}

/** A link, a button, a choice or a menu. */
function named(place: Locator, name: string): Locator {
  const words = { name: beginning(name) }
  return (['link', 'button', 'radio', 'checkbox'] as const)
    .map((role) => place.getByRole(role, words))
    .concat(place.locator('summary').filter({ hasText: words.name }))
    .concat(place.locator('summary').and(place.page().getByLabel(words.name)))
    .reduce((one, other) => one.or(other))
}

/** Matches texts that begin with these words: `acme` matches “acme admin”, but not “acme/php”. */
function beginning(words: string): RegExp {
  return new RegExp(`^\\s*${words.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}(?![\\w/])`)
}
