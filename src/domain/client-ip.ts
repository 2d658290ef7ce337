import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** An IP with a port, as some proxies write it into X-Forwarded-For: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const withPort = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/

/** Returns an IP of a request without port and zone. Null for other text: a trusted proxy can send anything. */
export function bareIp(text: string | undefined): string | null {
  const [, inBrackets, before] = withPort.exec(text ?? '') ?? []
  const bare = (inBrackets ?? before ?? text ?? '').replace(/%.*$/, '')
  return isIP(bare) === 0 ? null : bare
}

/**
 * Returns the network of a client IP: a whole IPv4, or the first 64 bits of an IPv6, which belong to one customer. The
 * socket of a client that has disconnected may have no IP.
 */
export function networkOf(ip: string | undefined): string {
  const bare = bareIp(ip)
  if (bare === null) return ip || 'unknown'
  // Also converts an IPv4 in IPv6 notation (::ffff:192.0.2.1) to IPv4.
  const parsed = ipaddr.process(bare)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  const groups = parsed.parts.slice(0, 4).map((part) => part.toString(16))
  return `${groups.join(':')}::/64`
}

/**
 * Returns the wider network of a network of `networkOf`: the first 48 bits of an IPv6, because one customer can have all
 * the networks in them. Null for IPv4.
 */
export function widerNetworkOf(network: string): string | null {
  const [, prefix] = /^([\da-f]+:[\da-f]+:[\da-f]+):[\da-f]+::\/64$/.exec(network) ?? []
  return prefix === undefined ? null : `${prefix}::/48`
}
