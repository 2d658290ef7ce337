import type { FastifyBaseLogger } from 'fastify'
import type { Queryable } from '../database/database.ts'
import type { TokenKind } from '../domain/secrets.ts'

/** How long uses are gathered before one statement writes them all. */
const gatherMilliseconds = 3_000

/** A token of the view `live_token` that was just used. */
export interface UsedToken {
  kind: TokenKind
  tokenId: string
  /** Null unless it is an access token of an application. */
  authorizationId: string | null
}

/** Stores when authorizations, personal access tokens and deploy tokens were last used. */
export interface LastUse {
  /** Remembers the use and returns at once, so that no request waits for the database. */
  note: (token: UsedToken) => void
  /**
   * Remembers that an application got a token. The application may use the token at another resource server, where svc
   * does not see it.
   */
  noteAuthorization: (authorizationId: string) => void
  /** Writes the remembered uses. */
  flush: () => Promise<void>
}

/**
 * Starts to collect uses. The process gathers them and writes them together, at most once a minute for each token. A
 * process that dies loses a few seconds of uses.
 */
export function openLastUse(db: Queryable, log: FastifyBaseLogger): LastUse {
  let authorizations = new Set<string>()
  let personalTokens = new Set<string>()
  let deployTokens = new Set<string>()
  let timer: NodeJS.Timeout | undefined

  async function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    const used = [[...authorizations], [...personalTokens], [...deployTokens]] as const
    authorizations = new Set()
    personalTokens = new Set()
    deployTokens = new Set()
    if (used.every((ids) => ids.length === 0)) return
    try {
      await touch(db, ...used)
    } catch (error) {
      log.warn({ err: error }, 'the last use of some tokens could not be stored')
    }
  }

  function schedule(): void {
    timer ??= setTimeout(() => void flush(), gatherMilliseconds).unref()
  }

  return {
    note({ kind, tokenId, authorizationId }) {
      if (kind === 'personal') personalTokens.add(tokenId)
      if (kind === 'deploy') deployTokens.add(tokenId)
      if (authorizationId !== null) authorizations.add(authorizationId)
      schedule()
    },
    noteAuthorization(authorizationId) {
      authorizations.add(authorizationId)
      schedule()
    },
    flush,
  }
}

/** Sets the last use to now if it is older than a minute. Skips locked rows: the next use updates them. */
async function touch(
  db: Queryable,
  authorizationIds: readonly string[],
  personalTokenIds: readonly string[],
  deployTokenIds: readonly string[],
): Promise<void> {
  await db.query({
    name: 'touch-last-use',
    text: `with personal as (
             update personal_token set last_used_at = now()
              where id in (select id from personal_token
                            where id = any($2) and coalesce(last_used_at, '-infinity') < now() - interval '1 minute'
                              for no key update skip locked)
           ), deploy as (
             update deploy_token set last_used_at = now()
              where id in (select id from deploy_token
                            where id = any($3) and coalesce(last_used_at, '-infinity') < now() - interval '1 minute'
                              for no key update skip locked)
           )
           update account_authorization set last_used_at = now()
            where id in (select id from account_authorization
                          where id = any($1) and coalesce(last_used_at, '-infinity') < now() - interval '1 minute'
                            for no key update skip locked)`,
    values: [authorizationIds, personalTokenIds, deployTokenIds],
  })
}
