import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, resolve } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyInstance } from 'fastify'

/** The URL paths of the files of Swagger UI. */
export interface ApiViewer {
  script: string
  style: string
}

const require = createRequire(import.meta.url)
const compress = promisify(gzip)

/**
 * Serves Swagger UI from the installed package. A file is read and compressed by the first request for it: most
 * processes never show the page, and the script has 1.7 MB.
 */
export async function serveApiViewer(app: FastifyInstance): Promise<ApiViewer> {
  const manifest = require.resolve('swagger-ui-dist/package.json')
  const { version } = JSON.parse(await readFile(manifest, 'utf8')) as { version: string }

  function serve(name: string, type: string): string {
    const path = `/docs/api/viewer/${version}/${name}`
    let compressed: Promise<Buffer> | undefined
    app.get(path, async (request, reply) => {
      const file = resolve(dirname(manifest), name)
      reply
        .type(type)
        .headers({ 'cache-control': 'public, max-age=31536000, immutable', vary: 'accept-encoding' })
      if (!/\bgzip\b/.test(request.headers['accept-encoding'] ?? '')) return reply.send(await readFile(file))
      // A failure is not cached: the next request tries again.
      compressed ??= readFile(file)
        .then((bytes) => compress(bytes))
        .catch((error: unknown) => {
          compressed = undefined
          throw error
        })
      return reply.header('content-encoding', 'gzip').send(await compressed)
    })
    return path
  }

  return {
    script: serve('swagger-ui-bundle.js', 'text/javascript; charset=utf-8'),
    style: serve('swagger-ui.css', 'text/css; charset=utf-8'),
  }
}
