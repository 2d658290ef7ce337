import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { projectRoot } from '../config.ts'
import { readSiteLogo, type Site } from '../domain/site.ts'

const types = {
  'style.css': 'text/css; charset=utf-8',
  'script.js': 'text/javascript; charset=utf-8',
  'passkey.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
} as const

/** The URL path of each file of `views/assets/`. It contains the file's hash, so browsers may cache it forever. */
export type Assets = Record<keyof typeof types, string>

/** Serves the files that pages link to from memory, and returns their URL paths. */
export async function serveAssets(app: FastifyInstance): Promise<Assets> {
  const paths = Object.entries(types).map(async ([name, type]) => {
    const bytes = await readFile(resolve(projectRoot, 'views/assets', name))
    return [name, serveFile(app, name, type, bytes)] as const
  })
  return Object.fromEntries(await Promise.all(paths)) as Assets
}

/** Serves the logo of the installation, and returns its URL path. Without SITE_LOGO it is the logo of svc. */
export async function serveLogo(app: FastifyInstance, site: Site, assets: Assets): Promise<string> {
  const logo = await readSiteLogo(site)
  return logo === null ? assets['icon.svg'] : serveFile(app, 'logo', logo.type, logo.bytes)
}

function serveFile(app: FastifyInstance, name: string, type: string, bytes: Buffer): string {
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 16)
  const path = `/assets/${hash}/${name}`
  app.get(path, (_request, reply) =>
    reply
      .headers({
        'cache-control': 'public, max-age=31536000, immutable',
        'x-content-type-options': 'nosniff',
        // An SVG file that somebody opens by its URL must not run scripts.
        ...(type.startsWith('image/') && {
          'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        }),
      })
      .type(type)
      .send(bytes),
  )
  return path
}
