import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { checkAccess, checkColors } from './axe.ts'
import { hasBrowser, useBrowser } from './browser.ts'

describe.skipIf(!hasBrowser)('the rules for colors (chromium is needed)', () => {
  const browser = useBrowser()

  const show = (page: Page, content: string) =>
    page.setContent(
      `<!doctype html><html lang="en"><title>x</title><main style="background: #fff"><h1>Colors</h1>${content}</main>`,
    )
  const text = (style = '', tag = 'p') => `<${tag} style="color: #666; ${style}">Some words</${tag}>`

  it.each([
    ['its color', text('color: #888')],
    ['its background', text('background: #aaa')],
    [
      'the background of an element that contains it',
      `<div style="background: #aaa"><section>${text()}</section></div>`,
    ],
    ['an element that shows through', `<div style="opacity: 0.5">${text()}</div>`],
    ['its size', text('color: #888; font-size: 16px')],
    [
      'the text around a link',
      '<p>Some words, and <a href="#x" style="color: #444; text-decoration: none">a link</a>',
    ],
  ])('check a text again that differs in %s', async (_, content) => {
    const page = await browser.newPage()
    const known = new Set<string>()
    await show(
      page,
      `${text()}${text('color: #888; font-size: 40px')}<p>Words</p><p><a href="#x" style="color: #444; text-decoration: none">Some words</a></p>`,
    )
    await checkAccess(page, 'the first page', known)
    await checkColors(page, 'the same page', known)
    await show(page, content)
    await expect(checkColors(page, 'another page', known)).rejects.toThrow('another page')
    await expect(checkAccess(page, 'all of another page', known)).rejects.toThrow('all of another page')
  })

  it('check a text again until one of its look has passed', async () => {
    const page = await browser.newPage()
    const known = new Set<string>()
    const covered = `<div style="position: absolute; background: #fff; inset: 0">Cover</div>${text('color: #888')}`
    await show(page, covered)
    await checkColors(page, 'a page whose text is covered', known)
    await show(page, text('color: #888'))
    await expect(checkColors(page, 'the same text', known)).rejects.toThrow('the same text')
  })
})
