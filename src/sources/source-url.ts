import { isIP } from 'node:net'
import { isPlainText } from '../domain/plain-text.ts'
import { errcode, Refusal } from '../domain/refusal.ts'

/** The parts of the URL of a Git repository. */
export interface SourceUrl {
  url: string
  protocol: 'https:' | 'http:' | 'ssh:'
  /** Without the brackets of an IPv6. */
  host: string
  port: number
}

const maxUrlLength = 500
const defaultPorts = { 'https:': 443, 'http:': 80, 'ssh:': 22 } as const
// Git and ssh are programs: a user, host or path that begins with - could be one of their options. A host does not end with a
// dot: curl removes it, and would then not find the address that was approved.
const shape =
  /^(https|http|ssh):\/\/(?:([\w.][\w.-]*)@)?(\w(?:[\w.-]*\w)?|\[[\da-f:.]+\])(?::(\d{1,5}))?\/(?!-)([\w.~+/-]|%[\da-f]{2})+$/i

/** Returns the URL that `user@host:path` means, the short form of SSH. Returns any other text as it is. */
export function fromScpSyntax(text: string): string {
  return text.replace(/^([\w.-]+@[\w.-]+):\/?(?!\/)/, 'ssh://$1/')
}

/**
 * Reads the URL of a Git repository. Throws errcode 3, with what to write instead, for another scheme, for credentials, and
 * for characters that Git or ssh could take for something else.
 */
export function readSourceUrl(text: string, { allowsHttp }: { allowsHttp: boolean }): SourceUrl {
  if (text.length > maxUrlLength || !isPlainText(text))
    throw invalid(`the URL has more than ${maxUrlLength} characters`)
  const long = fromScpSyntax(text)
  if (long !== text) throw invalid(`write the URL as ${long}`)
  const scheme = /^([\w+-]+):\/\//.exec(text)?.[1]?.toLowerCase()
  if (scheme === 'http' && !allowsHttp)
    throw invalid(
      'the URL is not https: an operator must allow it with OUTBOUND_HTTP=true, and add the source',
    )
  if (scheme === undefined || !['https', 'http', 'ssh'].includes(scheme))
    throw invalid('the URL must begin with https:// or ssh://')
  const authority = /^[\w+-]+:\/\/([^/?#]*)/.exec(text)?.[1] ?? ''
  if (
    authority.includes('@') &&
    (scheme !== 'ssh' || authority.slice(0, authority.lastIndexOf('@')).includes(':'))
  )
    throw invalid('the URL must not contain credentials: give a token by itself')
  const [, , , host = '', port] = shape.exec(text) ?? []
  const protocol = `${scheme}:` as SourceUrl['protocol']
  const number = port === undefined ? defaultPorts[protocol] : Number(port)
  if (
    host === '' ||
    number < 1 ||
    number > 65_535 ||
    /(?:^|\/)\.\.?(?:\/|$)/.test(text.replace(/^\w+:\/\//, ''))
  )
    throw invalid(
      'the URL must be one such as https://git.example.com/acme/lib.git, without query and fragment',
    )
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  if (bare !== host && isIP(bare) !== 6) throw invalid('the IPv6 address in the URL is not valid')
  return { url: text, protocol, host: bare.toLowerCase(), port: number }
}

function invalid(errmsg: string): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg)
}
