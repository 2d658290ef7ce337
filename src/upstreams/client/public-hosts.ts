import { lookup as resolveHost } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'
import { Agent, buildConnector } from 'undici'

/** The maximum number of connections from this process to one origin. */
const maxConnections = 16
const connectMilliseconds = 10_000

/** Thrown for a connection to a host that is not public, or that does not exist. The message does not tell which. */
export class PrivateHostError extends Error {
  override readonly name = 'PrivateHostError'
}

/** The metadata service of Azure, and IPv6 addresses with an IPv4 in their last 32 bits (RFC 4291 §2.5.5.1). */
const alsoPrivate = { ipv4: ipaddr.IPv4.parseCIDR('168.63.129.16/32'), ipv6: ipaddr.IPv6.parseCIDR('::/96') }

/**
 * Returns whether an IP is public. These ranges are not public: loopback, private, link-local (metadata services),
 * carrier-grade NAT, multicast, documentation and reserved. An IPv6 that contains an IPv4 of such a range is not public
 * either.
 */
export function isPublicIp(ip: string): boolean {
  if (!ipaddr.isValid(ip)) return false
  const parsed = ipaddr.process(ip)
  if (parsed.range() === 'unicast') return !parsed.match(alsoPrivate[parsed.kind()])
  if (!(parsed instanceof ipaddr.IPv6)) return false
  // 6to4, Teredo and NAT64 route to the IPv4 that they contain. Only NAT64 is accepted, when that IPv4 is public.
  if (parsed.range() !== 'rfc6052') return false
  return isPublicIp(new ipaddr.IPv4(parsed.toByteArray().slice(12)).toString())
}

/**
 * Opens an HTTP agent for URLs from users or other servers (UPSTREAMS 17). It connects to public IPs only, also after a
 * redirect. It checks the IP when it connects. So a name that resolves to another IP the second time cannot bypass the
 * check. `privateHosts` lists exceptions, as `host` or `host:port`.
 */
export function openPublicAgent(privateHosts: readonly string[]): Agent {
  const exceptions = new Set(privateHosts.map((host) => host.toLowerCase()))
  const open = buildConnector({ timeout: connectMilliseconds })
  const guarded = buildConnector({ timeout: connectMilliseconds, lookup: resolvePublicHost })
  return new Agent({
    connections: maxConnections,
    headersTimeout: 15_000,
    bodyTimeout: 30_000,
    keepAliveTimeout: 10_000,
    maxHeaderSize: 64 * 1024,
    connect(options, callback) {
      const host = options.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase()
      const port = options.port || (options.protocol === 'https:' ? '443' : '80')
      if (exceptions.has(host) || exceptions.has(`${host}:${port}`)) return open(options, callback)
      // Node does not call `lookup` for an IP, so check the IP here.
      if (isIP(host) !== 0 && !isPublicIp(host)) return callback(refusal(host), null)
      return guarded(options, callback)
    },
  })
}

/** Like `dns.lookup`, but fails if one of the IPs is private. */
const resolvePublicHost: LookupFunction = (hostname, options, callback) => {
  resolveHost(hostname, { ...options, all: true }, (error, addresses) => {
    const [first] = error ? [] : addresses
    // One error for names that do not exist and for those of private hosts: the internal names are nobody's business.
    if (!first || !addresses.every(({ address }) => isPublicIp(address)))
      return callback(refusal(hostname), '')
    return options.all ? callback(null, addresses) : callback(null, first.address, first.family)
  })
}

function refusal(host: string): PrivateHostError {
  return new PrivateHostError(
    `${host} has no public IP: an operator must allow it with OUTBOUND_PRIVATE_HOSTS, and add the upstream`,
  )
}
