import ipaddr from 'ipaddr.js'

/** The metadata service of Azure, which has a public IP. */
const azureMetadata = ipaddr.IPv4.parseCIDR('168.63.129.16/32')
/** The only IPv6 that is assigned to networks (RFC 4291 §2.4). */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3')
/** The prefix of NAT64 (RFC 6052 §2.1), not the one of RFC 8215 for private networks. */
const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')

/**
 * Returns whether an IP is public, not one for a special use (RFC 6890): loopback, private, link-local (metadata services),
 * carrier-grade NAT, multicast, documentation, reserved. IPv6 with an IPv4 in it is not public either: IPv4-mapped, 6to4,
 * Teredo. Only NAT64 is, when its IPv4 is public, because networks without IPv4 reach everything through it.
 */
export function isPublicIp(ip: string): boolean {
  if (ipaddr.IPv4.isValidFourPartDecimal(ip)) {
    const parsed = ipaddr.IPv4.parse(ip)
    return parsed.range() === 'unicast' && !parsed.match(azureMetadata)
  }
  if (!ipaddr.IPv6.isValid(ip)) return false
  const parsed = ipaddr.IPv6.parse(ip)
  if (parsed.match(nat64)) return isPublicIp(new ipaddr.IPv4(parsed.toByteArray().slice(12)).toString())
  return parsed.range() === 'unicast' && parsed.match(globalUnicast)
}
