import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import view from '@fastify/view'
import { Eta } from 'eta'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { type Config, projectRoot } from '../config.ts'
import { type Assets, serveAssets } from './assets.ts'
import { formatDay, formatSize, formatTime } from './format.ts'
import { takeNotice } from './notice.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Finds who sent a request, for the menu of error pages. */
    findVisitor: (request: FastifyRequest) => Promise<Visitor | null>
    /** The sentence that the last page left for this one; null without one. */
    takeNotice: (reply: FastifyReply) => string | null
  }
}

/** The visitor of a page: what the page's header shows and what its forms need. */
export interface Visitor {
  /** Null: not signed in. */
  account: { username: string; displayName: string } | null
  /** Goes into every form, as the field that csrf.ts reads. */
  csrfToken: string
}

/** A visitor who is not signed in, on a page without forms: it needs no cookie. */
export const nobody: Visitor = { account: null, csrfToken: '' }

/** Sends one page: `reply` may already carry a status and headers. */
export type Page<Content extends object> = (
  reply: FastifyReply,
  visitor: Visitor | null,
  content: Content,
) => FastifyReply

/** The page of a template under `views/`, with the content that it needs. The template reads it from `it`. */
export function page<Content extends object>(template: string): Page<Content> {
  return (reply, visitor, content) => {
    const { url, id } = reply.request
    const path = url.split('?', 1)[0]
    const notice = reply.statusCode < 400 ? reply.server.takeNotice(reply) : null
    return reply
      .type('text/html; charset=utf-8')
      .view(template, { ...content, visitor, path, url, notice, logId: id })
  }
}

/** Adds what all pages need: templates, compiled once, and the files that they link to. */
export async function pages(
  app: FastifyInstance,
  { config, findVisitor }: { config: Config; findVisitor: FastifyInstance['findVisitor'] },
): Promise<void> {
  const assets: Assets = await serveAssets(app)
  const release = JSON.parse(await readFile(resolve(projectRoot, 'package.json'), 'utf8')) as {
    version: string
  }
  app.decorate('findVisitor', findVisitor)
  app.decorate('takeNotice', (reply: FastifyReply) => takeNotice(reply.request, reply, config))
  await app.register(view, {
    engine: { eta: new Eta({ autoTrim: false }) },
    templates: resolve(projectRoot, 'views'),
    production: true,
    viewExt: 'eta',
    defaultContext: { assets, formatDay, formatTime, formatSize, version: release.version },
  })
}
