import { resolve } from 'node:path'
import { Eta } from 'eta'
import { type Config, projectRoot } from '../config.ts'
import { cleanLine } from '../domain/plain-text.ts'

/** A mail to one person. Every text is one line: control characters are removed before it is sent. */
export interface Mail {
  to: { address: string; name: string }
  subject: string
  /** What happened, in one or more sentences each. */
  paragraphs: readonly string[]
  /** Names and values, such as the browser of a sign-in. */
  facts?: readonly (readonly [name: string, value: string])[]
  link?: { label: string; url: string }
  /** What to do, after the link. */
  advice?: readonly string[]
}

/** The recipient of a mail to an account. */
export function personOf(account: { username: string; displayName: string; email: string }): Mail['to'] {
  return { address: account.email, name: account.displayName || account.username }
}

/** Returns the name of this server in mails: host and port of its public URL. */
export function siteOf({ baseUrl }: Pick<Config, 'baseUrl'>): string {
  return new URL(baseUrl).host
}

const eta = new Eta({ views: resolve(projectRoot, 'views/mail'), autoTrim: false, cache: true })

/** Returns the text part of a mail. */
export function renderText(mail: Mail): string {
  return eta.render('./text', cleaned(mail))
}

/** Returns the HTML part of a mail. It loads nothing: no image, font or style from elsewhere. */
export function renderHtml(mail: Mail): string {
  return eta.render('./html', cleaned(mail))
}

/** The names and values in a mail come from people. A line end in one of them could imitate the rest of the mail. */
function cleaned({ subject, paragraphs, facts = [], link, advice = [] }: Mail): object {
  return {
    subject: cleanLine(subject),
    paragraphs: paragraphs.map(cleanLine),
    facts: facts.map(([name, value]) => [cleanLine(name), cleanLine(value)]),
    link,
    advice: advice.map(cleanLine),
  }
}
