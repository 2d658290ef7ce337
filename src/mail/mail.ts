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
  /** Several things that happened, after the paragraphs. */
  sections?: readonly MailSection[]
  /** Names and values, such as the browser of a sign-in. */
  facts?: readonly (readonly [name: string, value: string])[]
  link?: { label: string; url: string }
  /** What to do, after the link. */
  advice?: readonly string[]
  /** A link that ends such mails, without a sign-in (RFC 8058). */
  unsubscribe?: { words: string; url: string }
}

/** One of several things that a mail tells. */
export interface MailSection {
  title: string
  url: string
  lines: readonly string[]
}

/** The recipient of a mail to an account. */
export function personOf(account: { username: string; displayName: string; email: string }): Mail['to'] {
  return { address: account.email, name: account.displayName || account.username }
}

/** Returns the name of this server in mails: SITE_NAME, or host and port of its public URL. */
export function siteOf({ baseUrl, site }: Pick<Config, 'baseUrl' | 'site'>): string {
  return site.name ?? new URL(baseUrl).host
}

const eta = new Eta({ views: resolve(projectRoot, 'views/mail'), autoTrim: false, cache: true })

/** The settings that mails show. */
export type MailSite = Pick<Config, 'baseUrl' | 'site'>

/** Returns the text part of a mail. It ends with a signature: the name, URL and contact of the site. */
export function renderText(mail: Mail, from: MailSite): string {
  return eta.render('./text', { ...cleaned(mail), site: signatureOf(from) })
}

/**
 * Returns the HTML part of a mail, with the look of the site. It loads nothing from elsewhere: no image, font or style.
 * With `hasLogo`, it shows the image that the mail contains as `logo`.
 */
export function renderHtml(mail: Mail, from: MailSite, hasLogo: boolean): string {
  return eta.render('./html', { ...cleaned(mail), site: signatureOf(from), hasLogo })
}

function signatureOf({ baseUrl, site }: MailSite) {
  return { name: site.name ?? 'svc', url: baseUrl, host: new URL(baseUrl).host, contact: site.contact }
}

/** The names and values in a mail come from people. A line end in one of them could imitate the rest of the mail. */
function cleaned({
  subject,
  paragraphs,
  sections = [],
  facts = [],
  link,
  advice = [],
  unsubscribe,
}: Mail): object {
  return {
    subject: cleanLine(subject),
    paragraphs: paragraphs.map(cleanLine),
    sections: sections.map(({ title, url, lines }) => ({
      title: cleanLine(title),
      url,
      lines: lines.map(cleanLine),
    })),
    facts: facts.map(([name, value]) => [cleanLine(name), cleanLine(value)]),
    link,
    advice: advice.map(cleanLine),
    unsubscribe,
  }
}
