import { type LookupAddress, lookup as resolveHost } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import { listsIp, listsName, type PrivateHost } from '../domain/private-hosts.ts'
import type { Bounds } from './kinds.ts'
import { PrivateHostError } from './outbound-error.ts'
import { isPublicIp } from './public-ip.ts'

const connectMilliseconds = 10_000

/** Finds all IPs of a host name, like `dns.lookup`. */
export type Resolver = (
  hostname: string,
  options: { all: true; family?: number; hints?: number },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/** The hosts that requests of a kind may reach. */
export interface HostGuard {
  /** Opens a connection, if all IPs of the host may be reached. */
  connect: buildConnector.connector
  /** Returns an IP of a host. Throws `PrivateHostError` if one of its IPs may not be reached. */
  approve: (host: string, port: number) => Promise<string>
  /** Returns whether a connection to an origin is open that goes to a private IP. */
  isPrivate: (url: URL) => boolean
}

/**
 * Opens a guard. A host is resolved once for each connection, and the connection goes to one of the IPs that were checked:
 * a name that resolves to another IP the second time cannot bypass the check. `privateHosts` lists exceptions.
 */
export function openHostGuard(
  { act, isConfigured = false }: Bounds,
  privateHosts: readonly PrivateHost[],
  resolver: Resolver = resolveHost,
): HostGuard {
  /** How many connections to private IPs are open, by origin. */
  const toPrivate = new Map<string, number>()

  function mayReach(host: string, port: number, ip: string): boolean {
    const isListed = (entry: PrivateHost) => listsName(entry, host, port) || listsIp(entry, ip, port)
    return isConfigured || isPublicIp(ip) || privateHosts.some(isListed)
  }

  function refusal(host: string): PrivateHostError {
    return new PrivateHostError(
      `${host} has no public IP: check the name. For a private host, an operator must allow it with OUTBOUND_PRIVATE_HOSTS, and ${act}`,
    )
  }

  /** Like `dns.lookup`, but fails if one of the IPs may not be reached. */
  const guardedLookup =
    (port: number): LookupFunction =>
    (hostname, options, callback) => {
      const { family, hints } = options
      const wanted = {
        all: true as const,
        ...(family && { family: Number(family) }),
        ...(hints && { hints }),
      }
      resolver(hostname, wanted, (error, addresses) => {
        const [first] = error ? [] : addresses
        // One error for names that do not exist and for those of private hosts: the internal names are nobody's business.
        if (!first && error && mayReach(hostname, port, '')) return callback(error, '')
        if (!first || !addresses.every(({ address }) => mayReach(hostname, port, address)))
          return callback(refusal(hostname), '')
        return options.all ? callback(null, addresses) : callback(null, first.address, first.family)
      })
    }

  const openConnector = (port: number) =>
    buildConnector({ timeout: connectMilliseconds, lookup: guardedLookup(port) })
  // A connector keeps the TLS sessions of its hosts. Only the ports of exceptions need one of their own.
  const anyPort = openConnector(0)
  const connectors = new Map(
    privateHosts.flatMap(({ port }) => (port === null ? [] : [[port, openConnector(port)]])),
  )

  return {
    connect(options, callback) {
      const host = withoutBrackets(options.hostname)
      const port = Number(options.port || (options.protocol === 'https:' ? 443 : 80))
      // Node does not call `lookup` for an IP, so check the IP here.
      if (isIP(host) !== 0 && !mayReach(host, port, host)) return callback(refusal(host), null)
      const connector = connectors.get(port) ?? anyPort
      return connector(options, (...[error, socket]) => {
        if (error) return callback(error, null)
        if (!isPublicIp(socket.remoteAddress ?? '')) {
          const origin = `${options.protocol}//${options.hostname}:${port}`
          toPrivate.set(origin, (toPrivate.get(origin) ?? 0) + 1)
          socket.once('close', () => {
            const left = (toPrivate.get(origin) ?? 1) - 1
            if (left > 0) toPrivate.set(origin, left)
            else toPrivate.delete(origin)
          })
        }
        return callback(null, socket)
      })
    },

    approve(name, port) {
      const host = withoutBrackets(name)
      return new Promise((resolve, reject) => {
        if (isIP(host) !== 0) return mayReach(host, port, host) ? resolve(host) : reject(refusal(host))
        return guardedLookup(port)(host, {}, (error, address) =>
          error ? reject(error) : resolve(address as string),
        )
      })
    },

    isPrivate: ({ protocol, hostname, port }) =>
      toPrivate.has(`${protocol}//${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`),
  }
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1')
}
