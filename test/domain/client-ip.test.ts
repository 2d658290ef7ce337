import { describe, expect, it } from 'vitest'
import { networkOf, widerNetworkOf } from '../../src/domain/client-ip.ts'

describe('networkOf', () => {
  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:DB8::6', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    // Some proxies add the port of the client.
    ['192.0.2.7:4711', '192.0.2.7'],
    ['[2001:db8:1:2::6]:4711', '2001:db8:1:2::/64'],
    ['[2001:db8:1:2::6]', '2001:db8:1:2::/64'],
    ['unknown', 'unknown'],
    // A client that has disconnected.
    [undefined, 'unknown'],
  ])('of %s is %s', (ip, network) => {
    expect(networkOf(ip)).toBe(network)
  })
})

describe('widerNetworkOf', () => {
  it.each([
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1::/48'],
    ['2001:db8::6', '2001:db8:0::/48'],
    ['192.0.2.7', null],
    ['unknown', null],
  ])('of the network of %s is %s', (ip, network) => {
    expect(widerNetworkOf(networkOf(ip))).toBe(network)
  })
})
