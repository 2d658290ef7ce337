import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../../context.ts'
import { countAttempt, limitsFrom } from '../../database/failure-limit.ts'
import { bareIp, networkOf } from '../../domain/client-ip.ts'
import { readResources } from '../../domain/resources.ts'
import { hashSecret, makeOpaqueId } from '../../domain/secrets.ts'
import {
  deviceLifetimeSeconds,
  findDeviceClient,
  insertDeviceRequest,
  pollSeconds,
} from '../../oauth/device-requests.ts'
import { readTextList } from '../forms.ts'
import { readScopes } from './authorize-request.ts'
import { optionalFormOf, readClient, refuseClient } from './client-request.ts'
import { OAuthError, sendJson } from './errors.ts'

/** The grant type of a device that polls (RFC 8628 §3.4). */
export const deviceGrantType = 'urn:ietf:params:oauth:grant-type:device_code'

/** Anybody can start requests with the id of a public client, so a network may start this many in a minute. */
const requestsPerNetwork = 60
const windowSeconds = 60

/** Device authorization endpoint (OPENID 221, RFC 8628 §3.1), also for some resources (OPENID 273). */
export async function deviceRoute(app: FastifyInstance, { db, config }: AppContext): Promise<void> {
  app.post('/device', async (request, reply) => {
    // Read it now: after a disconnect the socket no longer has it. What a proxy forwards may be no IP.
    const ip = bareIp(request.ip) ?? bareIp(request.socket.remoteAddress)
    if (ip === null) throw new OAuthError('invalid_request', 'The client has disconnected.')
    const form = optionalFormOf(request)
    const presented = readClient(request, form)
    const client = await findDeviceClient(db, presented)
    if (!client) return refuseClient(db, presented)
    if (!client.isDevice) {
      throw new OAuthError('unauthorized_client', 'The application is not registered for devices.')
    }
    const scopes = readScopes(
      form.scope ?? null,
      client.scopes,
      (reason) => new OAuthError('invalid_scope', reason),
    )
    const resources = readResources(readTextList('resource', request), config.baseUrl)
    if (resources?.length === 0) {
      throw new OAuthError(
        'invalid_target',
        'resource must be the URL of the API, of a registry, or of the whole server.',
      )
    }
    const blockedSeconds = await countAttempt(
      db,
      limitsFrom(networkOf(request.ip), { subject: 'devices', attempts: requestsPerNetwork, windowSeconds }),
    )
    if (blockedSeconds > 0) {
      throw new OAuthError(
        'temporarily_unavailable',
        'Your network starts too many devices. Try again later.',
        {
          headers: { 'retry-after': String(blockedSeconds) },
        },
      )
    }
    const deviceCode = makeOpaqueId()
    const userCode = await insertDeviceRequest(db, {
      deviceHash: hashSecret(deviceCode),
      applicationId: client.id,
      scopes,
      resourceScope: client.resourceScope,
      resources,
      ip,
    })
    const page = `${config.authUrl}/device`
    return sendJson(reply, {
      device_code: deviceCode,
      user_code: userCode,
      verification_uri: page,
      verification_uri_complete: `${page}?user_code=${userCode}`,
      expires_in: deviceLifetimeSeconds,
      interval: pollSeconds,
    })
  })
}
