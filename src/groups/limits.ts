import type pg from 'pg'
import type { Config, CountLimits } from '../config.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { anAdministrator } from '../domain/site.ts'
import { hasSiteRights } from './site-rights.ts'

/** Locks the owner, so that concurrent requests count each other's rows. */
const locks = {
  account: 'select from account where id = $1 for no key update',
  group: 'select from repository_group where id = $1 for no key update',
  repository: 'select from repository where id = $1 for no key update',
}

/**
 * The things that are limited: who has them, the statement that counts them, the setting of the maximum, and what makes room if
 * not their removal.
 */
const limited: Record<
  keyof CountLimits,
  { owner: keyof typeof locks; count: string; things: string; setting: string; remedy?: string }
> = {
  groups: {
    owner: 'account',
    count: 'select count(*)::int as count from repository_group where creator_id = $1',
    things: 'groups that it created',
    setting: 'ACCOUNT_MAX_GROUPS',
  },
  tokens: {
    owner: 'account',
    count: `select count(*)::int as count from personal_token
             where account_id = $1 and revoked_at is null and expires_at > now()`,
    things: 'personal access tokens',
    setting: 'ACCOUNT_MAX_TOKENS',
  },
  repositories: {
    owner: 'group',
    count: 'select count(*)::int as count from repository where $1 in (group_id, deleted_from_id)',
    things: 'repositories',
    setting: 'GROUP_MAX_REPOSITORIES',
  },
  deployTokens: {
    owner: 'group',
    count: `select count(*)::int as count from deploy_token
             where group_id = $1 and revoked_at is null and expires_at > now()`,
    things: 'deploy tokens',
    setting: 'GROUP_MAX_DEPLOY_TOKENS',
  },
  upstreams: {
    owner: 'group',
    count: `select count(*)::int as count from upstream u join repository r on r.id = u.repository_id
             where $1 in (r.group_id, r.deleted_from_id) and (u.removed_at is null or u.removed_at = r.deleted_at)`,
    things: 'upstreams',
    setting: 'GROUP_MAX_UPSTREAMS',
  },
  stages: {
    owner: 'repository',
    count: `select count(*)::int as count from staged_version
             where repository_id = $1 and state = 'staged' and expires_at > now()`,
    things: 'staged versions that wait',
    setting: 'REPOSITORY_MAX_STAGES',
    remedy: 'release or reject one',
  },
}

/**
 * Throws errcode 8 with 403 when an account, a group or a repository may not have another one of some things. Call it in the
 * transaction that adds the thing. Limits do not hold for changes with the rights of the site. These lock the owner, too: the
 * caller may count the things against a maximum that holds for everybody.
 */
export async function requireBelowLimit(
  tx: pg.PoolClient,
  { limits, site }: Pick<Config, 'limits' | 'site'>,
  by: Principal,
  kind: keyof CountLimits,
  ownerId: string,
): Promise<void> {
  const { owner, count, things, setting, remedy = 'remove one' } = limited[kind]
  await tx.query(locks[owner], [ownerId])
  if (await hasSiteRights(tx, by)) return
  const { rows } = await tx.query<{ count: number }>(count, [ownerId])
  const max = limits[kind]
  if ((rows[0]?.count ?? 0) < max) return
  throw new Refusal(
    errcode.resourceExhausted,
    `the ${owner} has the maximum of ${max} ${things}: ${remedy}, or ask ${anAdministrator(site)} about ${setting}`,
    { status: 403 },
  )
}
