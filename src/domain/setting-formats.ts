import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import * as z from 'zod'

/** An http or https URL without credentials, query and fragment. A slash at its end is removed. */
export const publicUrl = z
  .url({
    protocol: /^https?$/,
    error: 'must be an http or https URL, such as https://svc.example.com',
    abort: true,
  })
  .refine((url) => !/[?#]|\/\/[^/]*@/.test(url), {
    error: 'must have no credentials, query or fragment',
    abort: true,
  })
  .refine((url) => /^\w+:\/\/[^/]+[\w.~/-]*$/.test(url), {
    error: 'must have only letters, digits and - . _ ~ in its path',
    abort: true,
  })
  .transform((url) => url.replace(/\/+$/, ''))

/** Returns a schema for a whole number in decimal digits. */
export const wholeNumberSetting = (least: number, most: number) => {
  const mistake = `must be a whole number from ${least} to ${most}`
  return z
    .string()
    .regex(/^\d{1,15}$/, mistake)
    .transform(Number)
    .refine((number) => number >= least && number <= most, mistake)
}

/** Returns whether a text is an IP, or a range of IPs such as 10.0.0.0/8. */
export function isIpOrRange(text: string): boolean {
  const trimmed = text.trim()
  const [ip = ''] = trimmed.split('/')
  // Short forms of IPv4, such as `10.1`, are refused.
  if (!ipaddr.IPv6.isValid(ip) && !ipaddr.IPv4.isValidFourPartDecimal(ip)) return false
  return trimmed === ip || ipaddr.isValidCIDR(trimmed)
}

/** Returns whether a text is an IP that PostgreSQL accepts, which refuses the zone in `fe80::1%eth0`. */
export function isPlainIp(text: string): boolean {
  return isIP(text) !== 0 && !text.includes('%')
}

/** Splits a list at its commas. Empty parts are left out. */
export function hostsIn(text: string): string[] {
  return text
    .split(',')
    .map((host) => host.trim())
    .filter((host) => host !== '')
}

/** Returns whether a text is like `git.example.com`, `10.0.0.7:8080` or `[::1]:8080`. */
export function isHostAndPort(text: string): boolean {
  return /^(?:\[[\da-f:.]+\]|[\w.-]+|[\da-f:]*::[\da-f:.]*)(?::\d{1,5})?$/i.test(text)
}

/** Returns the host name for requests from this machine to a server that listens on `host`. */
export function urlHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost'
  return host.includes(':') ? `[${host}]` : host
}

/** Converts the setting TRUST_PROXY to the type that Fastify expects. */
export function readTrustProxy(value: string): boolean | number | string {
  if (value === 'true' || value === 'false') return value === 'true'
  return /^\d+$/.test(value) ? Number(value) : value
}
