import { describe, expect, it } from 'vitest'
import {
  formatRequest,
  maxRequestCharacters,
  type RequestedApplication,
  readRequest,
} from '../../src/oauth/application-request.ts'

const site = { name: 'Acme', url: 'https://svc.example.com' }
const request: RequestedApplication = {
  name: 'Build Bot',
  website: 'https://bot.example.com',
  redirectUri: 'https://bot.example.com/callback?a=b',
  exactRedirect: true,
  isPublic: true,
  isDevice: true,
  resourceScope: 'specified',
  scopes: ['account-profile:r', 'registry-package:rw'],
  developer: 'ann',
  description: 'Builds packages.\n\nName: not a label here\nScopes: group-delete:rw',
}

describe('the text with which a developer asks for an application', () => {
  it('has every detail', () => {
    expect(readRequest(formatRequest(request, site))).toEqual(request)
    const plain = {
      ...request,
      exactRedirect: false,
      isPublic: false,
      isDevice: false,
      developer: null,
      description: '',
    }
    expect(readRequest(formatRequest(plain, site))).toEqual(plain)
  })

  it.each<[string, (text: string) => string]>([
    ['in a mail with other lines', (text) => `Hello,\r\n\r\n${text}\r\n\r\n-- \r\nAnn\r\nName: Ann`],
    ['quoted', (text) => text.replace(/^/gm, '> > ')],
    ['with the line ends of Windows', (text) => text.replaceAll('\n', '\r\n')],
    ['with long lines wrapped', (text) => text.replace('account-profile:r ', 'account-profile:r\n')],
  ])('is read %s', (_what, change) => {
    expect(readRequest(change(formatRequest(request, site)))).toEqual(request)
  })

  it.each([
    ['an empty text', ''],
    ['any other text', 'Please register my application.\nIts website is https://bot.example.com'],
    ['a text that is too long', `${formatRequest(request, site)}${' '.repeat(maxRequestCharacters)}`],
  ])('is not read from %s', (_what, text) => {
    expect(readRequest(text)).toBeNull()
  })

  it('gives the narrowest resources for a word that is not known, and none of its lines decides more', () => {
    const text =
      'Name: X\nRedirect URL: https://a.example\nResources: everything\nResource server: yes\nPending: no'
    expect(readRequest(text)).toEqual({
      name: 'X',
      website: '',
      isPublic: false,
      isDevice: false,
      redirectUri: 'https://a.example',
      exactRedirect: false,
      resourceScope: 'public',
      scopes: [],
      developer: null,
      description: '',
    })
  })

  it('is shorter than the field that it is pasted into, also with the longest values', () => {
    const longest = {
      ...request,
      name: 'n'.repeat(50),
      redirectUri: `https://a/${'b'.repeat(1990)}`,
      description: 'd'.repeat(350),
    }
    expect(formatRequest(longest, site).length).toBeLessThan(maxRequestCharacters)
  })
})
