import { resolve } from 'node:path'
import view from '@fastify/view'
import { Eta } from 'eta'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Session } from '../accounts/sessions.ts'
import { type Config, projectRoot } from '../config.ts'
import { formatCount, formatDay, formatNumber, formatSize, formatTime } from '../domain/formats.ts'
import { mayCreateGroups } from '../domain/permissions.ts'
import { revealText, shortenText } from '../domain/plain-text.ts'
import { predicateName } from '../domain/provenance.ts'
import { partsOfRun } from '../domain/publisher.ts'
import { anAdministrator } from '../domain/site.ts'
import { version } from '../version.ts'
import { type Assets, serveAssets, serveLogo } from './assets.ts'
import { settingsPages, trailTo } from './breadcrumbs.ts'
import { escapeMarkup } from './escape-markup.ts'
import { takeNotice } from './notice.ts'
import { type PageError, pageNotFound, wrongMethod } from './page-error.ts'
import { pictureOf } from './pictures.ts'
import { type KnownRoutes, openKnownRoutes } from './unmatched-requests.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Finds the session of the browser that sent a request. Null when nobody is signed in. */
    findVisitor: (request: FastifyRequest) => Promise<Session | null>
    /** Returns the notice that the last page left, and removes it. Null without one. */
    takeNotice: (reply: FastifyReply) => string | null
    /** The URL paths of the files that pages link to. */
    assets: Assets
    /** The URLs of pages, for those that have another method. */
    pageUrls: KnownRoutes<PageError>
  }
}

/** The visitor of a page, for the page's header and forms. */
export interface Visitor {
  /** The signed-in account. Null when nobody is signed in. */
  account: { username: string; displayName: string; isAdmin: boolean } | null
  /** The token that csrf.ts reads from every form. */
  csrfToken: string
  /** When a second factor is required that the account does not have. Null for never. */
  factorDueAt?: Date | null
  /** The group that requires it. Null if it is the site. */
  factorGroup?: string | null
}

/** A visitor who is not signed in, on a page without forms. The page needs no cookie. */
export const nobody: Visitor = { account: null, csrfToken: '' }

/** Sends a page. `reply` may already have a status and headers. */
export type PageTemplate<Content extends object> = (
  reply: FastifyReply,
  visitor: Visitor | null,
  content: Content,
) => FastifyReply

/** Returns the page of a template below `views/`. The template reads its content from `it`. */
export function page<Content extends object>(template: string): PageTemplate<Content> {
  return (reply, visitor, content) => {
    const { url, id } = reply.request
    const path = url.split('?', 1)[0]
    const notice = reply.statusCode < 400 ? reply.server.takeNotice(reply) : null
    const hasScript = String(reply.getHeader('content-security-policy')).includes("script-src 'self'")
    return reply
      .type('text/html; charset=utf-8')
      .view(template, { ...content, visitor, path, url, notice, hasScript, logId: id })
  }
}

/** It keeps the templates that it has compiled: a process compiles each one once. */
const eta = new Eta({ autoTrim: false })

/** Adds what all pages need: the compiled templates and the files that they link to. */
export async function registerViews(
  app: FastifyInstance,
  { config, findVisitor }: { config: Config; findVisitor: FastifyInstance['findVisitor'] },
): Promise<void> {
  const assets: Assets = await serveAssets(app)
  app.decorate('assets', assets)
  const { site } = config
  app.decorate('findVisitor', findVisitor)
  app.decorate('pageUrls', openKnownRoutes({ wrongMethod, nothingHere: pageNotFound }))
  app.decorate('takeNotice', (reply: FastifyReply) => takeNotice(reply.request, reply, config))
  await app.register(view, {
    engine: { eta },
    templates: resolve(projectRoot, 'views'),
    production: true,
    viewExt: 'eta',
    defaultContext: {
      assets,
      site: { ...site, name: site.name ?? 'svc', logo: await serveLogo(app, site, assets) },
      pictureOf,
      linkContact: (text: string) => linkContact(text, site.contact),
      /** The words of `anAdministrator`, as HTML. */
      administrator: linkContact(anAdministrator(site), site.contact),
      mayCreateGroups: (account: { isAdmin: boolean }) => mayCreateGroups(config, account),
      isSignUpOpen: config.signUp === 'open' && config.passwordSignIn === 'on',
      formatCount,
      formatDay,
      formatNumber,
      formatTime,
      formatSize,
      reveal: revealText,
      partsOfRun,
      predicateName,
      /** For lists: a description may have as many characters as composer.json. */
      summarize: (description: string) => revealText(shortenText(description, 300)),
      settingsPages,
      trailTo,
      /** Not `version`: the content of a page may have the version of a package, and it wins. */
      programVersion: version,
    },
  })
}

/** Returns a text as HTML, in which the email address of the administrators is a link. */
function linkContact(text: string, contact: string | null): string {
  if (contact === null) return escapeMarkup(text)
  const link = `<a href="mailto:${escapeMarkup(encodeURI(contact))}">${escapeMarkup(contact)}</a>`
  return text.split(contact).map(escapeMarkup).join(link)
}

/**
 * A question before an action. Without JavaScript it is a page. With JavaScript, the same form is shown in a dialog.
 */
export interface Confirmation {
  title: string
  explanation: string
  /** The URL to which the form is sent. */
  action: string
  /** Hidden fields. */
  fields: Record<string, string>
  /** The label of the button. */
  button: string
  /** Whether nothing is lost by it, so that its button is not red. */
  isSafe?: boolean | undefined
  /**
   * A text that the person enters, such as a reason. It is required if not optional. A long one has a field with several
   * lines. Null for none.
   */
  ask: {
    name: string
    label: string
    maxLength: number
    isOptional?: boolean
    isLong?: true
    value?: string
  } | null
  /** A check box with the value `yes`. */
  choice?: { name: string; label: string; hint: string }
  /** The URL of the Cancel link. */
  back: string
}

/** Shows a question before an action. */
export const confirmationPage = page<Confirmation>('pages/confirmation')

/** Adds a Link header with the page's Atom feed, for programs that do not read the page (RFC 8288). */
export function linkToFeed(reply: FastifyReply, path: string): void {
  reply.header('link', `<${path}>; rel="alternate"; type="application/atom+xml"`)
}
