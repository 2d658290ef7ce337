import { isIP } from 'node:net'

/** An IP with a port, as some proxies write it into X-Forwarded-For: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const withPort = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/

/** Returns an IP of a request without port and zone. Null for other text: a trusted proxy can send anything. */
export function bareIp(text: string | undefined): string | null {
  const [, inBrackets, before] = withPort.exec(text ?? '') ?? []
  const bare = (inBrackets ?? before ?? text ?? '').replace(/%.*$/, '')
  return isIP(bare) === 0 ? null : bare
}
