import type { FastifyReply } from 'fastify'

const commonPolicy =
  "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"

/** What a page may load and where its forms may go: nowhere but here. */
export const pagePolicy = `${commonPolicy}; form-action 'self'`

/**
 * The policy of forms whose answer may lead to an application. Browsers hold `form-action` against the
 * redirect that follows a POST as well, and would silently stop it after the code was made (OAUTH 41).
 */
export const leavingPagePolicy = commonPolicy

/**
 * The headers of every page and every redirect between pages. No Cross-Origin-Opener-Policy: an application may
 * run its authorization in a window of its own, and would lose that window at the first page that has one.
 */
export function setPageHeaders(reply: FastifyReply, policy: string): void {
  reply.headers({
    'cache-control': 'no-store',
    'content-security-policy': policy,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  })
}
