import { createHash, randomBytes } from 'node:crypto'
import type pg from 'pg'
import type { Config } from '../config.ts'
import type { AppContext } from '../context.ts'
import { accountName } from '../database/account-name.ts'
import { type Queryable, transaction } from '../database/database.ts'
import { brokenConstraint } from '../database/errors.ts'
import type { SealedSecret } from '../database/secret-key.ts'
import type { ListPart } from '../domain/paging.ts'
import { isPlainText } from '../domain/plain-text.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, isOfServer, Refusal } from '../domain/refusal.ts'
import { readRowId } from '../domain/row-id.ts'
import { insertEvent } from '../events/events.ts'
import { requireLivePrincipal } from '../groups/live-principal.ts'
import { lockRepository } from '../groups/repositories.ts'
import { hasSiteRights } from '../groups/site-rights.ts'
import { enqueue, enqueueUnlessDue } from '../jobs/job.ts'
import type { Outbound } from '../outbound/outbound.ts'
import { OutboundError } from '../outbound/outbound-error.ts'
import { GitError, withGit } from './git.ts'
import { currentRefs, forgetRefusals } from './source-refs.ts'
import { type SourceSecrets, sourceSecrets } from './source-secrets.ts'
import { readSourceUrl, type SourceUrl } from './source-url.ts'

/** A source to add. */
export interface NewSource {
  url: string
  /** The folder of the package. The default is the root. */
  path?: string | null
  /** The pattern of tags. The default is all, and '' is none. */
  tags?: string | null
  /** The pattern of branches. */
  branches?: string | null
  /** How often svc looks. The default is 15 minutes. */
  everyMinutes?: number | null
  /** Whether the metadata does not name the Git repository. */
  hidesSource?: boolean
  /** A token, or `user:password`. Only for https. */
  secret?: string | null
  /** A private key without a passphrase. Only for SSH. */
  sshKey?: string | null
  /** The fingerprint of the SSH server's key. Without it, somebody must confirm the key that the server shows. */
  hostKey?: string | null
}

/** A source: a Git repository whose tags and branches become versions of a repository. */
export interface Source {
  id: string
  repositoryId: string
  url: string
  /** Empty for the root. */
  path: string
  tags: string
  branches: string
  everyMinutes: number
  hidesSource: boolean
  reachesPrivateHosts: boolean
  /** The pinned keys of the SSH server, as lines of known_hosts. Empty for https. */
  hostKeys: string
  /** Whether a person has confirmed these keys. Until then the source is not read. True for https. */
  isConfirmed: boolean
  /** The account that added it. Null for the command line, `deleted account` after that account was deleted. */
  madeBy: string | null
  createdAt: Date
  /** When it was read last without a failure. */
  lookedAt: Date | null
  nextLookAt: Date
  /** Why it cannot be read at the moment. */
  failure: string | null
  failingSince: Date | null
  /** How many tags and branches there are in each state. */
  counts: Partial<Record<string, number>>
}

/** A source that was added. */
export interface AddedSource {
  id: string
  hookUrl: string
  /** The secret of hooks. */
  hookSecret: string
  /** The fingerprints of the pinned keys of the SSH server. */
  hostKeys: string[]
  /** Whether it is read. If not, somebody must confirm the keys first. */
  isConfirmed: boolean
}

/** How many sources a repository can have. */
export const maxSources = 1000
const maxSecretLength = 4096
const maxKeyLength = 16 * 1024
const defaultEveryMinutes = 15
/** The largest `everyMinutes`, a week. The schema has the same number. */
export const maxEveryMinutes = 10_080
/** How long `add` waits for the keys of an SSH server. */
const hostKeyMilliseconds = 20_000

/** The job that reads a source, as its row in the queue. */
export const sourceJob = {
  name: 'read-source',
  singleton: ({ sourceId }: { sourceId: string }) => sourceId,
}

/** A setting of a new source that is not allowed. */
export class SourceRefusal extends Refusal {
  readonly setting: keyof NewSource

  constructor(setting: keyof NewSource, errmsg: string) {
    super(errcode.invalidArgument, errmsg)
    this.setting = setting
  }
}

type SourceContext = AppContext & { outbound: Outbound }

/**
 * Adds a source to a repository, and queues its first reading. Pins the keys that an SSH server shows: unless one of them
 * has the fingerprint of `hostKey`, the source waits for `confirmSource`. Throws errcode 3 for a setting or URL that is not
 * allowed, 5 when the repository was deleted, 6 when the repository reads this folder already, and 8 when it has too many
 * sources.
 */
export async function addSource(
  context: SourceContext,
  { repositoryId, by }: { repositoryId: string; by: Principal },
  wanted: NewSource,
): Promise<AddedSource> {
  const { config, db } = context
  const { settings, secrets, hostKeys, isConfirmed, reachesPrivateHosts } = await prepareSource(
    context,
    by,
    wanted,
  )
  const expected = wanted.hostKey ?? null
  const id = await transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    await requireRoom(tx, repositoryId)
    const id = await takeId(tx)
    const { keyId, sealed } = await sourceSecrets.seal(config, id, secrets)
    await insertSource(tx, {
      ...settings,
      id,
      repositoryId,
      reachesPrivateHosts,
      keyId,
      sealed,
      hostKeys,
      isConfirmed,
      madeBy: by.accountId,
    })
    await insertEvent(tx, by, {
      repositoryId,
      action: 'add-source',
      details: { ...detailsOf({ ...settings, id }), ...(expected !== null && { host_key: expected }) },
    })
    if (isConfirmed) await enqueue(tx, sourceJob, { sourceId: id })
    return id
  })
  const { hookSecret } = secrets
  return {
    id,
    hookUrl: hookUrlOf(config, id),
    hookSecret,
    hostKeys: fingerprintsOf({ hostKeys }),
    isConfirmed,
  }
}

/**
 * Confirms the key that the SSH server of a source has shown, by its fingerprint, and queues the first reading. Writes the
 * event. Returns false when there is no such source. Throws errcode 3 for another fingerprint.
 */
export async function confirmSource(
  db: pg.Pool,
  by: Principal,
  { id, repositoryId, hostKey }: { id: string; repositoryId: string | null; hostKey: string },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    const { rows } = await tx.query<Source>(
      `select ${columns} from source s
        where s.id = $1 and s.removed_at is null and ($2::bigint is null or s.repository_id = $2) for update of s`,
      [id, repositoryId],
    )
    const [source] = rows
    if (!source) return false
    requireHostKey(source, hostKey)
    if (source.isConfirmed) return true
    await tx.query('update source set is_confirmed = true where id = $1', [id])
    await insertEvent(tx, by, {
      repositoryId: source.repositoryId,
      action: 'confirm-source',
      details: { source: Number(id), url: source.url, host_key: hostKey },
    })
    await enqueue(tx, sourceJob, { sourceId: id })
    return true
  })
}

/**
 * Replaces the secret of the hooks of a source, by a new one or by one that the Git server has made. The former one ends at
 * once. Writes the event. Returns the secret, or null when there is no such source. Throws errcode 3 for a secret that is not
 * allowed, and 14 when the server has lost the key of the secrets.
 */
export async function replaceHookSecret(
  { config, db }: AppContext,
  by: Principal,
  { id, repositoryId, secret }: { id: string; repositoryId: string | null; secret: string | null },
): Promise<string | null> {
  const hookSecret = secret === null ? makeHookSecret() : readHookSecret(secret)
  return transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    const { rows } = await tx.query<SealedSecret & { repositoryId: string; url: string }>(
      `select repository_id as "repositoryId", url, key_id as "keyId", sealed_secrets as sealed from source
        where id = $1 and removed_at is null and ($2::bigint is null or repository_id = $2) for update`,
      [id, repositoryId],
    )
    const [source] = rows
    if (!source) return null
    const secrets = await sourceSecrets.open(config, id, source)
    if (secrets === null) throw lostKey(id)
    const { keyId, sealed } = await sourceSecrets.seal(config, id, { ...secrets, hookSecret })
    await tx.query('update source set key_id = $2, sealed_secrets = $3 where id = $1', [id, keyId, sealed])
    await insertEvent(tx, by, {
      repositoryId: source.repositoryId,
      action: 'change-hook-secret',
      details: { source: Number(id), url: source.url },
    })
    return hookSecret
  })
}

/**
 * Checks a source to add, and adds nothing. Returns the fingerprints of the keys that the SSH server has now. Throws errcode 3
 * as `addSource` does.
 */
export async function checkSource(
  context: SourceContext,
  by: Principal,
  wanted: NewSource,
): Promise<Pick<AddedSource, 'hostKeys' | 'isConfirmed'>> {
  const { hostKeys, isConfirmed } = await prepareSource(context, by, wanted)
  return { hostKeys: fingerprintsOf({ hostKeys }), isConfirmed }
}

async function prepareSource(context: SourceContext, by: Principal, wanted: NewSource) {
  const { config, db } = context
  const reachesPrivateHosts = await hasSiteRights(db, by)
  const allowsHttp = config.outbound.allowHttp && reachesPrivateHosts
  const remote = readSourceUrl(wanted.url, { allowsHttp })
  const settings = readSettings(wanted, remote)
  const secrets: SourceSecrets = {
    hookSecret: makeHookSecret(),
    login: readLogin(wanted.secret ?? null),
    sshKey: wanted.sshKey ?? null,
  }
  const hostKeys = await findHostKeys(context, { ...remote, ...secrets, reachesPrivateHosts })
  const expected = wanted.hostKey ?? null
  if (expected !== null) requireHostKey({ hostKeys }, expected)
  const isConfirmed = hostKeys === '' || expected !== null
  return { settings, secrets, hostKeys, isConfirmed, reachesPrivateHosts }
}

/**
 * Removes a source. Its versions stay. Writes the event. `repositoryId` limits it to one repository. Returns false when there
 * is no such source.
 */
export async function removeSource(
  db: pg.Pool,
  by: Principal,
  { id, repositoryId }: { id: string; repositoryId: string | null },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const { rows } = await tx.query<Source>(
      `update source s set removed_at = now(), sealed_secrets = null, key_id = null
        where id = $1 and removed_at is null and ($2::bigint is null or repository_id = $2)
    returning ${columns}`,
      [id, repositoryId],
    )
    const [removed] = rows
    if (!removed) return false
    await tx.query('delete from source_ref where source_id = $1', [id])
    await tx.query('delete from source_package where source_id = $1', [id])
    await insertEvent(tx, by, {
      repositoryId: removed.repositoryId,
      action: 'remove-source',
      details: detailsOf(removed),
    })
    return true
  })
}

/**
 * Queues the reading of a source. Tags and branches that were refused are judged again. Returns false when there is no such
 * source. Throws errcode 9 when the key of its SSH server waits for a confirmation.
 */
export async function queueSource(
  db: pg.Pool,
  { id, repositoryId }: { id: string; repositoryId: string | null },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const { rows } = await tx.query<Pick<Source, 'isConfirmed'>>(
      `select is_confirmed as "isConfirmed" from source
        where id = $1 and removed_at is null and ($2::bigint is null or repository_id = $2)`,
      [id, repositoryId],
    )
    const [source] = rows
    if (!source) return false
    if (!source.isConfirmed)
      throw new Refusal(errcode.failedPrecondition, 'confirm the key of the SSH server first')
    await forgetRefusals(tx, id)
    await enqueue(tx, sourceJob, { sourceId: id })
    return true
  })
}

/**
 * Queues the reading of a source whose Git server tells of a push. Many at once queue one reading. Tags and branches that were
 * refused are not judged again.
 */
export async function queuePushed(db: Queryable, id: string): Promise<void> {
  await enqueueUnlessDue(db, sourceJob, { sourceId: id })
}

const columns = `s.id, s.repository_id as "repositoryId", s.url, s.path, s.tags, s.branches, s.every_minutes as "everyMinutes",
  s.hides_source as "hidesSource", s.reaches_private_hosts as "reachesPrivateHosts", s.host_keys as "hostKeys",
  s.is_confirmed as "isConfirmed", ${accountName('s.made_by')} as "madeBy",
  s.created_at as "createdAt", s.looked_at as "lookedAt", s.next_look_at as "nextLookAt", s.failure,
  s.failing_since as "failingSince",
  (select coalesce(json_object_agg(c.state, c.count), '{}')
     from (select r.state, count(*)::int as count from ${currentRefs} where r.source_id = s.id group by r.state) c) as counts`

/** Lists the sources of a repository, the oldest first. `after` is the id of one of them. */
export async function listSources(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
): Promise<Source[]> {
  const { rows } = await db.query<Source>(
    `select ${columns} from source s
      where s.repository_id = $1 and s.removed_at is null and ($2::bigint is null or s.id > $2)
      order by s.id limit $3`,
    [repositoryId, readRowId(after), limit],
  )
  return rows
}

/** Describes a source for the API and `--json`. It has no secrets. */
export function describeSource(source: Source, config: Pick<Config, 'baseUrl'>) {
  return {
    id: Number(source.id),
    url: source.url,
    path: source.path,
    tags: source.tags,
    branches: source.branches,
    every: source.everyMinutes,
    hide_source: source.hidesSource,
    hook_url: hookUrlOf(config, source.id),
    host_keys: fingerprintsOf(source),
    host_keys_confirmed: source.isConfirmed,
    made_by: source.madeBy,
    created_at: source.createdAt.toISOString(),
    looked_at: source.lookedAt?.toISOString() ?? null,
    next_look_at: source.nextLookAt.toISOString(),
    failure: source.failure,
    failing_since: source.failingSince?.toISOString() ?? null,
    counts: source.counts,
  }
}

/** Finds a source. Null when there is none, or its repository was deleted. */
export async function findSource(db: Queryable, id: string): Promise<Source | null> {
  const { rows } = await db.query<Source>(
    `select ${columns} from source s join repository r on r.id = s.repository_id and r.group_id is not null
      where s.id = $1 and s.removed_at is null`,
    [readRowId(id)],
  )
  return rows[0] ?? null
}

/** The sources of a repository that need its admins. */
export interface TroubledSources {
  path: string
  /** How many cannot be read. */
  failing: number
  /** How many wait for somebody to confirm the key of their SSH server. */
  unconfirmed: number
}

/** Lists the repositories that an account administers and whose sources need somebody, by path. */
export async function listTroubledSources(
  db: Queryable,
  accountId: string,
  limit: number,
): Promise<TroubledSources[]> {
  const { rows } = await db.query<TroubledSources>(
    `select g.name || '/' || r.name as path,
            (count(*) filter (where s.is_confirmed))::int as failing,
            (count(*) filter (where not s.is_confirmed))::int as unconfirmed
       from source s
       join repository r on r.id = s.repository_id
       join repository_group g on g.id = r.group_id
      where s.removed_at is null and (s.failing_since is not null or not s.is_confirmed)
        and (r.id in (select repository_id from counted_repository_member where account_id = $1 and role = 'admin')
             or g.id in (select group_id from counted_group_member where account_id = $1 and role = 'admin'))
      group by g.name, r.name
      order by path limit $2`,
    [accountId, limit],
  )
  return rows
}

/** Finds the secrets of a source. Null when there is none, or the server has lost its key. */
export async function findSourceSecrets(context: AppContext, id: string): Promise<SourceSecrets | null> {
  const sealed = await findSealed(context.db, id)
  return sealed === null ? null : sourceSecrets.open(context.config, id, sealed)
}

/**
 * Finds the secret with which a Git server signs the hooks of a source. Null when there is no such source, or its repository
 * was deleted. Throws errcode 14 when the server has lost the key of the secret.
 */
export async function findHookSecret({ config, db }: AppContext, id: string): Promise<string | null> {
  const sealed = await findSealed(db, id)
  if (sealed === null) return null
  const secrets = await sourceSecrets.open(config, id, sealed)
  if (secrets === null) throw lostKey(id)
  return secrets.hookSecret
}

function lostKey(id: string): Refusal {
  const cause = new Error(
    `the server has lost the key of the secrets of the source ${id}: restore SECRET_KEY, or add the source again`,
  )
  return new Refusal(errcode.unavailable, 'temporarily unavailable', { cause })
}

async function findSealed(db: Queryable, id: string): Promise<SealedSecret | null> {
  const { rows } = await db.query<SealedSecret>(
    `select s.key_id as "keyId", s.sealed_secrets as sealed
       from source s join repository r on r.id = s.repository_id and r.group_id is not null
      where s.id = $1 and s.removed_at is null`,
    [readRowId(id)],
  )
  return rows[0] ?? null
}

/** Returns the URL that a Git server calls after a push. */
export function hookUrlOf({ baseUrl }: Pick<Config, 'baseUrl'>, id: string): string {
  return `${baseUrl}/hooks/${id}`
}

/** Throws errcode 3 unless one of the keys that an SSH server has shown has a fingerprint. */
function requireHostKey(source: Pick<Source, 'hostKeys'>, hostKey: string): void {
  const shown = fingerprintsOf(source)
  if (shown.includes(hostKey)) return
  if (shown.length === 0) throw invalid('hostKey', 'only an SSH server has a key with a fingerprint')
  throw invalid('hostKey', `the SSH server has shown a key with the fingerprint ${shown.join(', ')}`)
}

/** Returns the fingerprints of pinned keys, as `ssh-keygen -l` prints them. */
export function fingerprintsOf({ hostKeys }: Pick<Source, 'hostKeys'>): string[] {
  return hostKeys
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [, , key = ''] = line.split(' ')
      const digest = createHash('sha256').update(Buffer.from(key, 'base64')).digest('base64')
      return `SHA256:${digest.replace(/=+$/, '')}`
    })
}

/** Takes the sources whose time has come, and returns their ids. Each is due again after its interval. */
export async function takeDueSources(db: Queryable, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `update source set next_look_at = now() + every_minutes * (0.95 + 0.1 * random()) * interval '1 minute'
      where id in (select s.id from source s join repository r on r.id = s.repository_id and r.group_id is not null
                    where s.removed_at is null and s.is_confirmed and s.next_look_at <= now()
                    order by s.next_look_at limit $1 for update of s skip locked)
  returning id`,
    [limit],
  )
  return rows.map(({ id }) => id)
}

/** Stores that a source was read. */
export async function noteLook(db: Queryable, id: string): Promise<void> {
  await db.query('update source set looked_at = now(), failure = null, failing_since = null where id = $1', [
    id,
  ])
}

/**
 * Stores why a source cannot be read. The first of several failures in a row writes an event. The next reading waits as long
 * as the failures have lasted, at most six hours: servers that hang must not take the turns of others.
 */
export async function noteFailure(
  db: pg.Pool,
  by: Principal,
  source: Source,
  failure: string,
): Promise<void> {
  await transaction(db, async (tx) => {
    const { rows } = await tx.query<{ isFirst: boolean }>(
      `update source set failure = $2, failing_since = coalesce(failing_since, now()),
              next_look_at = greatest(next_look_at, now() + least(now() - coalesce(failing_since, now()), interval '6 hours'))
        where id = $1 and removed_at is null returning failing_since = now() as "isFirst"`,
      [source.id, failure],
    )
    if (rows[0]?.isFirst !== true) return
    const details = { source: Number(source.id), url: source.url, failure }
    await insertEvent(tx, by, { repositoryId: source.repositoryId, action: 'fail-source', details })
  })
}

/** Returns the message of an error for people, if the Git server or a full disk has caused it. Null otherwise. */
export function describeFailure(error: unknown): string | null {
  if (error instanceof Refusal && isOfServer(error)) return error.message
  return error instanceof GitError || error instanceof OutboundError ? error.message : null
}

type Settings = Pick<Source, 'url' | 'path' | 'tags' | 'branches' | 'everyMinutes' | 'hidesSource'>

function detailsOf({ id, url, path, tags, branches, everyMinutes, hidesSource }: Settings & { id: string }) {
  return {
    source: Number(id),
    url,
    ...(path !== '' && { path }),
    tags,
    branches,
    every_minutes: everyMinutes,
    hides_source: hidesSource,
  }
}

function readSettings(wanted: NewSource, { url, protocol }: SourceUrl): Settings {
  const { hidesSource = false, secret = null, sshKey = null } = wanted
  const path = (wanted.path ?? '').replace(/^\/+|\/+$/g, '')
  const isPath =
    path === '' || path.split('/').every((part) => /^(?!-)[\w.+@ -]+$/.test(part) && !/^\.+$/.test(part))
  if (!isPath || path.length > 300)
    throw invalid('path', 'the path must be a folder of the Git repository, such as packages/lib')
  const [tags, branches] = [wanted.tags ?? '*', wanted.branches ?? '*']
  for (const [setting, pattern] of Object.entries({ tags, branches }) as ['tags' | 'branches', string][])
    if (pattern.length > 200 || !isPlainText(pattern))
      throw invalid(setting, 'a pattern must have at most 200 characters')
  const everyMinutes = wanted.everyMinutes ?? defaultEveryMinutes
  if (!Number.isInteger(everyMinutes) || everyMinutes < 1 || everyMinutes > maxEveryMinutes)
    throw invalid('everyMinutes', `the interval must be 1 to ${maxEveryMinutes} minutes`)
  if (protocol === 'ssh:' && sshKey === null) throw invalid('sshKey', 'a URL with ssh:// needs a private key')
  if (protocol === 'ssh:' && secret !== null)
    throw invalid('secret', 'a token is for https:// only: SSH needs a private key')
  if (protocol !== 'ssh:' && sshKey !== null)
    throw invalid('sshKey', 'a private key is for ssh:// only: https needs a token')
  if (
    sshKey !== null &&
    (sshKey.length > maxKeyLength || !/^-----BEGIN [A-Z ]*PRIVATE KEY-----\s/.test(sshKey))
  )
    throw invalid('sshKey', 'the SSH key must be a private key without a passphrase')
  return { url, path, tags, branches, everyMinutes, hidesSource }
}

/** Returns the user and password that a secret is. Most servers accept any user with a token. */
function readLogin(secret: string | null): string | null {
  if (secret === null) return null
  const login = secret.trim()
  if (login === '' || login.length > maxSecretLength || !isPlainText(login))
    throw invalid('secret', 'the secret must be a token, or user:password, in one line')
  return login.includes(':') ? login : `x-access-token:${login}`
}

/**
 * Returns a new secret of hooks, as Standard Webhooks write one: 32 random bytes. GitLab needs this format to sign its hooks,
 * and the other Git servers take any text.
 */
function makeHookSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

/** Reads a secret that a Git server has made. */
function readHookSecret(text: string): string {
  const secret = text.trim()
  if (!/^[!-~]{16,200}$/.test(secret))
    throw new Refusal(
      errcode.invalidArgument,
      'the secret of hooks must have 16 to 200 ASCII characters, without spaces',
    )
  return secret
}

/** Approves the host of a source. Returns the keys of an SSH server as lines of known_hosts. Empty for https. */
async function findHostKeys(
  { config, outbound }: SourceContext,
  remote: SourceUrl & SourceSecrets & { reachesPrivateHosts: boolean },
): Promise<string> {
  const { protocol, host, port, reachesPrivateHosts } = remote
  try {
    if (protocol !== 'ssh:') {
      await outbound.approveHost('git', host, port, { reachesPrivateHosts })
      return ''
    }
    const signal = AbortSignal.timeout(hostKeyMilliseconds)
    const keys = await withGit({ config, outbound }, { ...remote, hostKeys: null }, signal, async (git) => {
      // Only the keys matter: the server may not know the key of the source yet.
      await git.listRefs().catch(() => {})
      return git.readHostKeys()
    })
    if (keys === '') throw new GitError('remote', `${host} does not respond as an SSH server on port ${port}`)
    return keys
  } catch (error) {
    const failure = describeFailure(error)
    if (failure === null) throw error
    throw new Refusal(errcode.invalidArgument, failure, { cause: error })
  }
}

async function requireRoom(tx: pg.PoolClient, repositoryId: string): Promise<void> {
  await lockRepository(tx, repositoryId)
  const { rows } = await tx.query<{ count: number }>(
    'select count(*)::int as count from source where repository_id = $1 and removed_at is null',
    [repositoryId],
  )
  if ((rows[0]?.count ?? 0) < maxSources) return
  const errmsg = `a repository can have at most ${maxSources} sources: remove one`
  throw new Refusal(errcode.resourceExhausted, errmsg, { status: 403 })
}

/** Returns the id of a new source, for which its secrets are sealed. */
async function takeId(tx: pg.PoolClient): Promise<string> {
  const { rows } = await tx.query<{ id: string }>(
    `select nextval(pg_get_serial_sequence('source', 'id')) as id`,
  )
  return (rows[0] as { id: string }).id
}

async function insertSource(
  tx: pg.PoolClient,
  fresh: Settings & {
    id: string
    repositoryId: string
    reachesPrivateHosts: boolean
    keyId: Buffer
    sealed: Buffer
    hostKeys: string
    isConfirmed: boolean
    madeBy: string | null
  },
): Promise<void> {
  try {
    await tx.query(
      `insert into source (id, repository_id, url, path, tags, branches, every_minutes, hides_source,
                           reaches_private_hosts, key_id, sealed_secrets, host_keys, is_confirmed, made_by, next_look_at)
       overriding system value
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, now() + $7::integer * interval '1 minute')`,
      [
        fresh.id,
        fresh.repositoryId,
        fresh.url,
        fresh.path,
        fresh.tags,
        fresh.branches,
        fresh.everyMinutes,
        fresh.hidesSource,
        fresh.reachesPrivateHosts,
        fresh.keyId,
        fresh.sealed,
        fresh.hostKeys,
        fresh.isConfirmed,
        fresh.madeBy,
      ],
    )
  } catch (error) {
    if (brokenConstraint(error) !== 'source_is_there') throw error
    throw new Refusal(errcode.alreadyExists, 'the repository has a source with this URL and path')
  }
}

function invalid(setting: keyof NewSource, errmsg: string): SourceRefusal {
  return new SourceRefusal(setting, errmsg)
}
