import ipaddr from 'ipaddr.js'
import { isIpOrRange } from './setting-formats.ts'

/** An entry of OUTBOUND_PRIVATE_HOSTS: a host name, or a range of IPs. A single IP is a range of one. */
export type PrivateHost = { port: number | null } & ({ name: string } | { range: IpRange })

type IpRange = [ipaddr.IPv4 | ipaddr.IPv6, number]

/** An IPv6 with a port stands in brackets. Everything else has a colon only before its port. */
const entry = /^(?:\[([\da-f:.]+(?:\/\d{1,3})?)\]|([^\s:[\]]+)|([\da-f:.]+(?:\/\d{1,3})?))(?::(\d{1,5}))?$/i

/**
 * Reads an entry: a host name, an IP or a range such as `10.0.0.0/8`, each with or without `:port`. An IPv6 with a port is
 * written as `[fd00::1]:8080`, and a range as `[fd00::/8]:8080`. Returns null for another text.
 */
export function readPrivateHost(text: string): PrivateHost | null {
  const [, bracketed, plain, ipv6, digits] = entry.exec(text) ?? []
  const host = bracketed ?? plain ?? ipv6 ?? ''
  const port = digits === undefined ? null : Number(digits)
  if (isIpOrRange(host)) return { range: readRange(host), port }
  return plain !== undefined && /^[\w.-]+$/.test(host) ? { name: canonicalName(host), port } : null
}

/** Returns whether an entry is one host: a name or an IP, and not a range of IPs. */
export function isSingleHost(entry: PrivateHost): boolean {
  return 'name' in entry || entry.range[1] === (entry.range[0].kind() === 'ipv4' ? 32 : 128)
}

/** Returns whether an entry lists the host name for a port. */
export function listsName(entry: PrivateHost, name: string, port: number): boolean {
  return 'name' in entry && isForPort(entry, port) && entry.name === canonicalName(name)
}

/** Returns whether an entry lists an IP for a port. */
export function listsIp(entry: PrivateHost, ip: string, port: number): boolean {
  if (!('range' in entry) || !isForPort(entry, port) || !ipaddr.isValid(ip)) return false
  const parsed = ipaddr.process(ip)
  return parsed.kind() === entry.range[0].kind() && parsed.match(entry.range)
}

function isForPort({ port }: PrivateHost, wanted: number): boolean {
  return port === null || port === wanted
}

function readRange(text: string): IpRange {
  if (text.includes('/')) return ipaddr.parseCIDR(text)
  const ip = ipaddr.process(text)
  return [ip, ip.kind() === 'ipv4' ? 32 : 128]
}

/** A name with a dot at its end is the same host. */
function canonicalName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '')
}
