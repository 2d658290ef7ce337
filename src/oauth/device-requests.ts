import { randomInt } from 'node:crypto'
import type { SiteFactorRule } from '../config.ts'
import { type Queryable, sweepOf } from '../database/database.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import { hashSecret, type SecretHash } from '../domain/secrets.ts'
import {
  type AskingDevice,
  type ConsentApplication,
  consentApplicationJson,
} from './authorization-requests.ts'
import type { PresentedClient } from './token-pairs.ts'

/** How long a device waits for a decision, and how long between two polls at first (RFC 8628 §3.2). */
export const deviceLifetimeSeconds = 900
export const pollSeconds = 5
/** What a poll that comes too early adds to the interval (RFC 8628 §3.5). */
const slowerSeconds = 5
/** The way through the network makes the time between two polls differ by less than this. */
const toleranceSeconds = 1

/** Consonants, so that codes spell no words, and without letters that look alike (RFC 8628 §6.1). */
const letters = 'BCDFGHJKLMNPQRSTVWXZ'
const userCodeShape = new RegExp(`^[${letters}]{8}$`)

/** Returns a new code for people, such as `BCDF-GHJK`. It has 34 bits, so attempts are limited. */
export function makeUserCode(): string {
  const drawn = Array.from({ length: 8 }, () => letters[randomInt(letters.length)]).join('')
  return formatUserCode(drawn)
}

/** Reads a code as a person types it. Null for a text that no code can be. Returns it as the device shows it. */
export function readUserCode(text: string): string | null {
  const code = text.replaceAll(/[\s\p{Pd}]/gu, '').toUpperCase()
  return userCodeShape.test(code) ? formatUserCode(code) : null
}

function formatUserCode(code: string): string {
  return `${code.slice(0, 4)}-${code.slice(4)}`
}

/** An application that has authenticated to start a request. It may only when `isDevice`. */
export interface DeviceClient {
  id: string
  isDevice: boolean
  scopes: string[]
  resourceScope: ResourceScope
}

/** Authenticates a client that wants codes for a device. Null when that fails. */
export async function findDeviceClient(
  db: Queryable,
  { clientId, secretHash }: PresentedClient,
): Promise<DeviceClient | null> {
  const { rows } = await db.query<DeviceClient>(
    `select a.id, a.is_device as "isDevice", a.scopes, a.resource_scope as "resourceScope"
       from application_credential c join application a on a.id = c.application_id
      where c.secret_hash = $1 and c.client_id = $2`,
    [secretHash, clientId],
  )
  return rows[0] ?? null
}

/** The request of a device. */
export interface NewDeviceRequest {
  deviceHash: SecretHash
  applicationId: string
  scopes: readonly string[]
  resourceScope: ResourceScope
  /** The resources that it names (RFC 8707). Null: none, so it is for everything. */
  resources: readonly string[] | null
  /** The client IP of the device. */
  ip: string
}

/** Stores the request of a device. Returns the code that the device shows. */
export async function insertDeviceRequest(db: Queryable, request: NewDeviceRequest): Promise<string> {
  for (;;) {
    const userCode = makeUserCode()
    const { rowCount } = await db.query(
      `insert into device_request (device_hash, user_hash, application_id, scopes, resource_scope, client_ip, expires_at,
                                   interval_seconds, resources)
       values ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7), $8, $9)
       on conflict (user_hash) do nothing`,
      [
        request.deviceHash,
        hashSecret(userCode),
        request.applicationId,
        request.scopes,
        request.resourceScope,
        request.ip,
        deviceLifetimeSeconds,
        pollSeconds,
        request.resources,
      ],
    )
    if (rowCount === 1) return userCode
  }
}

/** The request of a device that waits for a decision. */
export interface WaitingDevice extends AskingDevice {
  deviceHash: SecretHash
  applicationId: string
  application: ConsentApplication
  scopes: string[]
  resourceScope: ResourceScope
  /** Null when the request names none. */
  resources: string[] | null
}

/** Finds the request of a device by the code that it shows. Null when it is unknown, decided or expired, or its application is not for devices. */
export async function findWaitingDevice(db: Queryable, userCode: string): Promise<WaitingDevice | null> {
  const { rows } = await db.query<WaitingDevice>(
    `select d.device_hash as "deviceHash", d.application_id as "applicationId", d.scopes,
            d.resource_scope as "resourceScope", d.resources, host(d.client_ip) as ip,
            floor(extract(epoch from now() - d.created_at))::integer as "ageSeconds",
            ${consentApplicationJson} as application
       from device_request d
       join application c on c.id = d.application_id and c.status = 'approved' and c.is_device
      where d.user_hash = $1 and d.is_approved is null and d.expires_at > now()`,
    [hashSecret(userCode)],
  )
  return rows[0] ?? null
}

/** What a poll gets: `approved` with the hash of the code to exchange, or an error of RFC 8628 §3.5 or RFC 6749 §5.2. */
export type DevicePoll =
  | { outcome: 'approved'; codeHash: SecretHash }
  | {
      outcome:
        | 'access_denied'
        | 'authorization_pending'
        | 'expired_token'
        | 'invalid_client'
        | 'invalid_grant'
        | 'slow_down'
        | 'unauthorized_client'
    }

/**
 * Returns what the poll of a device gets (OPENID 224–226). A decision counts before the speed of the polls. An approval
 * counts until its code is exchanged, and only if the account could still give it. The exchange decides about the code again.
 */
export async function pollDevice(
  db: Queryable,
  { clientId, secretHash }: PresentedClient,
  deviceHash: SecretHash,
  site: SiteFactorRule,
): Promise<DevicePoll> {
  const { rows } = await db.query<DevicePoll>({
    name: 'poll-device',
    text: `with device as materialized (
             select d.device_hash, d.application_id, d.account_id, d.is_approved, d.expires_at <= now() as is_expired,
                    d.polled_at > now() - make_interval(secs => d.interval_seconds - $6) as is_too_fast,
                    a.client_id = $1 and a.status <> 'approved' as is_suspended,
                    a.is_device as is_for_devices
               from device_request d join application a on a.id = d.application_id
              where d.device_hash = $3
                for no key update of d
           ), client as materialized (
             select (select application_id from application_credential
                      where secret_hash = $2 and client_id = $1) as id
           ), polled as (
             update device_request d
                set polled_at = now(),
                    interval_seconds = case when is_too_fast then least(d.interval_seconds + $7, $8)
                                            else d.interval_seconds end
               from device, client
              where d.device_hash = device.device_hash and d.application_id = client.id and d.is_approved is null
           )
           select case
                    when device.is_suspended then 'invalid_grant'
                    when client.id is null then 'invalid_client'
                    when device.application_id is distinct from client.id then 'invalid_grant'
                    when not device.is_for_devices then 'unauthorized_client'
                    when device.is_approved = false then 'access_denied'
                    when device.is_approved then
                      case
                        when code.redeemed_at is not null or lacks_due_factor(device.account_id, $4, $5) then 'invalid_grant'
                        when code.expires_at <= now() then 'expired_token'
                        else 'approved'
                      end
                    when device.is_expired then 'expired_token'
                    when device.is_too_fast then 'slow_down'
                    else 'authorization_pending'
                  end as outcome,
                  -- Of the device, not of the code: a poll that waited for an approval does not see the code of it yet.
                  code_hash_of_device(device.device_hash) as "codeHash"
             from client
             left join device on true
             left join authorization_code code on code.code_hash = code_hash_of_device(device.device_hash)`,
    values: [
      clientId,
      secretHash,
      deviceHash,
      site.of,
      site.from,
      toleranceSeconds,
      slowerSeconds,
      deviceLifetimeSeconds,
    ],
  })
  return rows[0] as DevicePoll
}

/** Deletes at most `limit` requests of devices that expired more than a day ago. Returns how many it deleted. */
export const deleteExpiredDevices = sweepOf(
  'device_request',
  'device_hash',
  `expires_at < now() - interval '1 day'`,
)
