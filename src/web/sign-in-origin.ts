import type { FastifyRequest } from 'fastify'
import type { FactorContext } from '../accounts/second-factor/check-factor.ts'
import type { PasskeySender } from '../accounts/second-factor/check-passkey.ts'
import type { SignInOrigin } from '../accounts/sign-in-origins.ts'
import type { Config } from '../config.ts'
import type { AppContext } from '../context.ts'
import { networkOf } from '../domain/client-ip.ts'
import { hashSecret } from '../domain/secrets.ts'
import { readCookie } from './cookies.ts'
import { browserOf } from './principal.ts'

/** Returns the origin of a request. */
export function signInOriginOf(request: FastifyRequest, config: Config): SignInOrigin {
  const network = networkOf(request.ip)
  const device = readCookie(request, config, 'device')
  return {
    network,
    networkHash: hashSecret(`network ${network}`),
    deviceHash: device === null ? null : hashSecret(device),
  }
}

/** Returns the browser that sends a passkey in this request. */
export function passkeySenderOf(request: FastifyRequest, config: Config): PasskeySender {
  return { origin: signInOriginOf(request, config), by: browserOf(request, null) }
}

/** Returns the context of the check of a factor that this request sends. */
export function factorContextOf({ config, db }: AppContext, request: FastifyRequest): FactorContext {
  return { config, db, log: request.log, origin: signInOriginOf(request, config) }
}
