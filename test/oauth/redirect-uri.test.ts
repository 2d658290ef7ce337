import { describe, expect, it } from 'vitest'
import { checkRedirectUri, redirectTo } from '../../src/oauth/redirect-uri.ts'

const https = { redirectUri: 'https://app.example.com/cb', exactRedirect: false, isPublic: false }
const withPort = { redirectUri: 'https://app.example.com:8443/cb', exactRedirect: false, isPublic: false }
const plain = { redirectUri: 'http://intranet.example/cb', exactRedirect: false, isPublic: false }
const loopback = { redirectUri: 'http://127.0.0.1/cb', exactRedirect: false, isPublic: false }
const loopback6 = { redirectUri: 'http://[::1]/cb', exactRedirect: false, isPublic: false }
const localhost = { redirectUri: 'http://localhost:5000/cb', exactRedirect: false, isPublic: false }
const ip = { redirectUri: 'http://10.1.2.3/cb', exactRedirect: false, isPublic: false }
const international = {
  redirectUri: 'https://xn--bcher-kva.example/cb',
  exactRedirect: false,
  isPublic: false,
}
const exact = { redirectUri: 'https://app.example.com/cb?app=1', exactRedirect: true, isPublic: false }
const publicHttps = { ...https, isPublic: true }
const publicLoopback = { ...localhost, isPublic: true }
const publicLoopback6 = { ...loopback6, isPublic: true }
const app = { redirectUri: 'com.example.app:/cb', exactRedirect: false, isPublic: true }

describe('checkRedirectUri', () => {
  it.each([
    ['the registered URL', https, 'https://app.example.com/cb'],
    ['another path (12)', https, 'https://app.example.com/other/deep/'],
    ['no path (12)', https, 'https://app.example.com'],
    ['a query right after the host (12)', https, 'https://app.example.com?x=1'],
    ['another query (12)', https, 'https://app.example.com/cb?next=%2Fhome&x=a%20b'],
    ['an @ in the path', https, 'https://app.example.com/@me/cb'],
    ['an @ in the query', https, 'https://app.example.com/cb?mail=a@b.example'],
    ['brackets, quotes and signs in the path', https, "https://app.example.com/a[1]/(b)/c;d='e'!$&*+,:~_"],
    ['another case of the host (13)', https, 'https://APP.Example.COM/cb'],
    ['the default port (13)', https, 'https://app.example.com:443/cb'],
    ['an empty port (13)', https, 'https://app.example.com:/cb'],
    ['a port with leading zeros (13)', https, 'https://app.example.com:0443/cb'],
    ['a URL inside the query', https, 'https://app.example.com/cb?u=https://evil.test/'],
    [
      'parameters that only start like ours',
      https,
      'https://app.example.com/cb?codec=1&states=2&errors=3&issue=4',
    ],
    ['a parameter in another case', https, 'https://app.example.com/cb?CODE=1'],
    ['dots in the path', https, 'https://app.example.com/a/../b'],
    ['the registered port', withPort, 'https://app.example.com:8443/x'],
    ['http when registered so (20)', plain, 'http://intranet.example/x'],
    ['the default port of http', plain, 'http://intranet.example:80/x'],
    ['any port on loopback (24)', loopback, 'http://127.0.0.1:51234/cb'],
    ['no port on loopback (24)', loopback, 'http://127.0.0.1/'],
    ['the same loopback in hexadecimal (21)', loopback, 'http://0x7f.1/cb'],
    ['the same loopback as one number (21)', loopback, 'http://2130706433:8080/cb'],
    ['the same loopback in octal (21)', loopback, 'http://0177.0.0.1/cb'],
    ['any port on IPv6 loopback (24)', loopback6, 'http://[::1]:51234/cb'],
    ['IPv6 loopback in full (21)', loopback6, 'http://[0:0:0:0:0:0:0:1]/cb'],
    ['any port on localhost (24)', localhost, 'http://localhost:1234/cb'],
    ['localhost without a port (24)', localhost, 'http://localhost/cb'],
    ['the same IP in hexadecimal (21)', ip, 'http://0x0a.1.2.3/cb'],
    ['an international host in ASCII', international, 'https://xn--bcher-kva.example/other'],
    ['the registered path of a public client (OPENID 206)', publicHttps, 'https://APP.example.com:443/cb'],
    ['any port on the loopback of a public client (OPENID 206)', publicLoopback, 'http://localhost:1234/cb'],
    ['no port on the loopback of a public client (OPENID 206)', publicLoopback6, 'http://[::1]/cb'],
    ['the registered private-use scheme (OPENID 206)', app, 'com.example.app:/cb'],
    ['the registered URL where it must be exact', exact, 'https://app.example.com/cb?app=1'],
  ])('accepts %s', (_, registration, asked) => {
    expect(checkRedirectUri(asked, registration, ['registry-package:rw'])).toEqual({ uri: asked })
  })

  it.each([
    ['the registered URL', https, 'https://app.example.com/cb'],
    ['another case of the host', https, 'https://APP.Example.COM/cb'],
    ['any port on loopback', loopback, 'http://127.0.0.1:51234/cb'],
  ])('accepts %s with the scope openid (OPENID 260)', (_, registration, asked) => {
    expect(checkRedirectUri(asked, registration, ['openid'])).toEqual({ uri: asked })
  })

  it.each([
    ['a path below the registered one', https, 'https://app.example.com/cb/below'],
    ['a path that begins like it', https, 'https://app.example.com/cb_more'],
    ['no path', https, 'https://app.example.com'],
    ['a query', https, 'https://app.example.com/cb?x=1'],
    ['another path on loopback', loopback, 'http://127.0.0.1:51234/'],
  ])('refuses %s with the scope openid (OPENID 260)', (_, registration, asked) => {
    const { refusal } = checkRedirectUri(asked, registration, ['email', 'openid'])
    expect(refusal).toContain('as with the scope openid it must not')
  })

  it.each([
    ['another host (14)', https, 'https://evil.test/cb', 'domain'],
    ['a subdomain (14)', https, 'https://x.app.example.com/cb', 'domain'],
    ['the parent domain (14)', https, 'https://example.com/cb', 'domain'],
    ['a suffix (14)', https, 'https://app.example.com.evil.test/cb', 'domain'],
    ['a prefix (14)', https, 'https://evil-app.example.com/cb', 'domain'],
    ['a dot that was any character (14)', https, 'https://appxexample.com/cb', 'domain'],
    ['a user name (15)', https, 'https://x@app.example.com/cb', 'username'],
    ['a user name and password (15)', https, 'https://x:y@app.example.com/cb', 'username'],
    ['the host as user name (15)', https, 'https://app.example.com@evil.test/cb', 'username'],
    ['the host and port as user name (15)', https, 'https://app.example.com:443@evil.test/cb', 'username'],
    ['an encoded @ (15)', https, 'https://app.example.com%40evil.test/cb', 'username'],
    ['a twice encoded @ (15)', https, 'https://app.example.com%25@evil.test/cb', 'username'],
    ['an empty user name (15)', https, 'https://@app.example.com/cb', 'username'],
    ['an encoded dot in the host', https, 'https://app%2eexample.com/cb', 'username'],
    ['a backslash (16)', https, 'https://app.example.com\\@evil.test/cb', 'percent-encoded'],
    ['backslashes for slashes (16)', https, 'https:\\\\app.example.com/cb', 'percent-encoded'],
    ['a tab (16)', https, 'https://app.example.com/\tcb', 'percent-encoded'],
    ['a line break (16)', https, 'https://app.example.com/cb\r\nx-evil: 1', 'percent-encoded'],
    ['a leading space (16)', https, ' https://app.example.com/cb', 'percent-encoded'],
    ['a trailing space (16)', https, 'https://app.example.com/cb ', 'percent-encoded'],
    ['a control character (16)', https, 'https://app.example.com/\u0001cb', 'percent-encoded'],
    ['a NUL (16)', https, 'https://app.example.com\u0000.evil.test/cb', 'percent-encoded'],
    ['non-ASCII in the path (16)', https, 'https://app.example.com/é', 'percent-encoded'],
    ['angle brackets (16)', https, 'https://app.example.com/<script>', 'percent-encoded'],
    ['a quote (16)', https, 'https://app.example.com/"x', 'percent-encoded'],
    ['curly brackets (16)', https, 'https://app.example.com/{x}', 'percent-encoded'],
    ['a fragment (17)', https, 'https://app.example.com/cb#x', 'fragment'],
    ['an empty fragment (17)', https, 'https://app.example.com/cb#', 'fragment'],
    ['a fragment right after the host (17)', https, 'https://app.example.com#@evil.test/', 'fragment'],
    ['a relative URL (18)', https, '/cb', 'absolute'],
    ['a URL without scheme (18)', https, '//app.example.com/cb', 'absolute'],
    ['a scheme without slashes (18)', https, 'https:app.example.com/cb', 'absolute'],
    ['a scheme with one slash (18)', https, 'https:/app.example.com/cb', 'absolute'],
    ['a scheme with three slashes (18)', https, 'https:///app.example.com/cb', 'absolute'],
    ['nothing (18)', https, '', 'percent-encoded'],
    ['javascript (19)', https, 'javascript://app.example.com/%0aalert(1)', 'absolute'],
    ['data (19)', https, 'data:text/html,x', 'absolute'],
    ['blob (19)', https, 'blob:https://app.example.com/x', 'absolute'],
    ['a custom scheme (19)', https, 'com.example.app:/cb', 'absolute'],
    ['http when https is registered (20)', https, 'http://app.example.com/cb', 'scheme'],
    ['https when http is registered (20)', plain, 'https://intranet.example/cb', 'scheme'],
    ['https when http on loopback is registered (20)', loopback, 'https://127.0.0.1/cb', 'scheme'],
    ['another IP in one number (21)', ip, 'http://2130706433/cb', 'domain'],
    ['localhost for 127.0.0.1 (21)', loopback, 'http://localhost/cb', 'domain'],
    ['a neighbor of the loopback IP (21)', loopback, 'http://127.0.0.2/cb', 'domain'],
    ['the mapped form of the loopback IP (21)', loopback, 'http://[::ffff:127.0.0.1]/cb', 'domain'],
    ['a host that only starts like loopback', loopback, 'http://127.0.0.1.evil.test/cb', 'domain'],
    ['a number that is no IP (21)', ip, 'http://99999999999/cb', 'valid'],
    ['a trailing dot (22)', https, 'https://app.example.com./cb', 'domain'],
    ['a homograph (23)', https, 'https://аpp.example.com/cb', 'percent-encoded'],
    ['a homograph in ASCII (23)', https, 'https://xn--pp-7kc.example.com/cb', 'domain'],
    ['full-width letters (23)', https, 'https://ａpp.example.com/cb', 'percent-encoded'],
    ['an ideographic full stop (23)', https, 'https://app。example.com/cb', 'percent-encoded'],
    ['an international host, not in ASCII', international, 'https://bücher.example/cb', 'percent-encoded'],
    ['another port (25)', https, 'https://app.example.com:8443/cb', 'port'],
    ["another scheme's default port (25)", https, 'https://app.example.com:80/cb', 'port'],
    ['the default port where another is registered (25)', withPort, 'https://app.example.com/cb', 'port'],
    ['a port out of range', https, 'https://app.example.com:99999/cb', 'valid'],
    ['a port that is no number', https, 'https://app.example.com:x/cb', 'valid'],
    ['a query with code (26)', https, 'https://app.example.com/cb?code=x', 'already has'],
    ['a query with state (26)', https, 'https://app.example.com/cb?a=1&state', 'already has'],
    ['a query with error (26)', https, 'https://app.example.com/cb?error=', 'already has'],
    ['a query with iss (26)', https, 'https://app.example.com/cb?iss=x', 'already has'],
    ['a query with an encoded code (26)', https, 'https://app.example.com/cb?c%6fde=x', 'already has'],
    ['another query where it must be exact', exact, 'https://app.example.com/cb?app=2', 'exactly'],
    ['another case where it must be exact', exact, 'https://APP.example.com/cb?app=1', 'exactly'],
    ['another path of a public client (OPENID 206)', publicHttps, 'https://app.example.com/cb/', 'path'],
    ['a query of a public client (OPENID 206)', publicHttps, 'https://app.example.com/cb?x=1', 'path'],
    ['another port of a public client (OPENID 206)', publicHttps, 'https://app.example.com:8443/cb', 'port'],
    ['another path on its loopback (OPENID 206)', publicLoopback, 'http://localhost:1234/', 'path'],
    ['another name of loopback (OPENID 206)', publicLoopback, 'http://127.0.0.1:5000/cb', 'domain'],
    ['another path of a private-use scheme (OPENID 206)', app, 'com.example.app:/', 'exactly'],
    ['another private-use scheme (OPENID 206)', app, 'com.example.other:/cb', 'exactly'],
    ['a private-use scheme where https is registered', publicHttps, 'com.example.app:/cb', 'exactly'],
    ['a private-use scheme of a confidential client', https, 'com.example.app:/cb', 'absolute'],
    ['a scheme without a dot (19)', { ...app, redirectUri: 'javascript:/x' }, 'javascript:/x', 'absolute'],
    ['more than 2000 characters', https, `https://app.example.com/${'x'.repeat(2000)}`, 'longer'],
  ])('refuses %s', (_, registration, asked, reason) => {
    expect(checkRedirectUri(asked, registration, []).refusal).toContain(reason)
  })
})

describe('redirectTo', () => {
  it.each([
    ['https://a.example/cb', 'https://a.example/cb?code=c&state=s'],
    ['https://a.example', 'https://a.example?code=c&state=s'],
    ['https://a.example/cb?', 'https://a.example/cb?code=c&state=s'],
    ['https://a.example/cb?x=a%20b', 'https://a.example/cb?x=a%20b&code=c&state=s'],
    ['https://a.example/cb?x=a+b&', 'https://a.example/cb?x=a+b&code=c&state=s'],
  ])('appends to %s without touching it (OAUTH 27)', (uri, expected) => {
    expect(redirectTo(uri, { code: 'c', state: 's', iss: null })).toBe(expected)
  })
})
