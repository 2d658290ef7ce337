import { LRUCache } from 'lru-cache'
import { limitsFrom } from '../database/failure-limit.ts'
import { networkOf } from '../domain/client-ip.ts'
import { keepUpTo } from '../domain/growing-cache.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'

/** How long a process remembers that no upstream has a document (UPSTREAMS 4). */
const rememberedMilliseconds = 10 * 60_000
/** How many such documents a process remembers. With the longest names and 50 upstreams, that is about 20 MB. */
const maxRemembered = 20_000

/** A budget lasts this long after its first use. */
const budgetMilliseconds = 10 * 60_000
/** How many budgets a process keeps. The least recently used ones are forgotten first. */
const maxBudgets = 20_000
/** How many unknown names of a repository one network may look up without a token. A /48 of IPv6 may look up four times as many. */
export const maxPerNetwork = 300
/** How many unknown names of a repository one token may look up, and all clients without a token together. */
const maxPerToken = 3_000
const maxWithoutToken = 3_000

/**
 * Bounds what names cost that no upstream has. Anybody can invent such names for a public repository, and each of them
 * causes requests to its upstreams.
 */
export interface UnknownNames {
  /** Returns whether the upstreams had no such document a short time ago. */
  has: (document: string) => boolean
  /** Remembers that the upstreams have no such document. */
  add: (document: string) => void
  /**
   * Takes one name from the budget of the client and of the repository. Returns a function that gives it back, for a name
   * that an upstream has. Throws errcode 8 with Retry-After when the budget is used up. A "not found" would be wrong,
   * because it would send Composer to other repositories. Commands have no budget.
   */
  take: (repositoryId: string, by: Principal) => () => void
}

/** Opens the memory of a process. It is empty, and no budget is used. `perf` is the clock. */
export function openUnknownNames(perf: { now: () => number } = performance): UnknownNames {
  const clock = { perf, ttlResolution: 0 }
  const remembered = new LRUCache<string, true>({
    ...keepUpTo(maxRemembered),
    ttl: rememberedMilliseconds,
    ...clock,
  })
  const used = new LRUCache<string, { count: number }>({
    ...keepUpTo(maxBudgets),
    ttl: budgetMilliseconds,
    ...clock,
  })

  /** Returns the count of a budget. It ends ten minutes after its first use, even when it is used again before. */
  function countOf(key: string): { count: number } {
    const known = used.get(key)
    if (known) return known
    const fresh = { count: 0 }
    used.set(key, fresh)
    return fresh
  }

  return {
    has: (document) => remembered.has(document),
    add: (document) => void remembered.set(document, true),

    take(repositoryId, by) {
      const budgets = budgetsOf(repositoryId, by).map(({ key, limit }) => ({
        key,
        limit,
        counted: countOf(key),
      }))
      const empty = budgets.find(({ counted, limit }) => counted.count >= limit)
      if (empty) throw tooMany(Math.max(1, Math.ceil(used.getRemainingTTL(empty.key) / 1000)))
      for (const { counted } of budgets) counted.count += 1
      return () => {
        for (const { counted } of budgets) counted.count -= 1
      }
    },
  }
}

function budgetsOf(repositoryId: string, { token, ip }: Principal): { key: string; limit: number }[] {
  if (token) return [{ key: `${repositoryId} token ${token.kind} ${token.tokenId}`, limit: maxPerToken }]
  if (ip === null) return []
  const perNetwork = {
    subject: repositoryId,
    attempts: maxPerNetwork,
    windowSeconds: budgetMilliseconds / 1000,
  }
  return [
    ...limitsFrom(networkOf(ip), perNetwork).map(({ subject, attempts }) => ({
      key: subject,
      limit: attempts,
    })),
    { key: `${repositoryId} all`, limit: maxWithoutToken },
  ]
}

function tooMany(retryAfterSeconds: number): Refusal {
  return new Refusal(errcode.resourceExhausted, 'too many unknown packages', {
    retryAfterSeconds,
    warning: 'Too many packages were requested that no upstream has. Try again later, or use a token.',
  })
}
