import { resourceScopes } from '../domain/permissions.ts'
import type { Application } from './applications.ts'

/** The details of an application that a developer sends to an administrator, without its logo. */
export type RequestedApplication = Pick<
  Application,
  | 'name'
  | 'website'
  | 'redirectUri'
  | 'exactRedirect'
  | 'isPublic'
  | 'isDevice'
  | 'resourceScope'
  | 'scopes'
  | 'developer'
> & { description: string }

/** A longer text is not read. The longest text of `formatRequest` has about 4,500 characters. */
export const maxRequestCharacters = 8000

const lastLine = 'End of the application'

/** The labels of the lines, in their order. The description may have several lines, so it is the last. */
const labels = {
  Name: 'name',
  Website: 'website',
  'Redirect URL': 'redirectUri',
  'Only this URL': 'exactRedirect',
  'Public client': 'isPublic',
  'For devices': 'isDevice',
  Resources: 'resourceScope',
  Scopes: 'scopes',
  Developer: 'developer',
  Description: 'description',
} as const satisfies Record<string, keyof RequestedApplication>

type Label = keyof typeof labels

/** Returns the text with which a developer asks for an application, for a mail to an administrator (SPEC 1.6). */
export function formatRequest(
  application: RequestedApplication,
  { name, url }: { name: string; url: string },
): string {
  const lines = Object.entries(labels).map(([label, key]) => `${label}: ${formatValue(application[key])}`)
  return [
    `Application for ${name}`,
    `To register it: ${url}/admin/applications/new`,
    '',
    ...lines,
    lastLine,
    '',
    'The logo is attached.',
  ].join('\n')
}

function formatValue(value: string | boolean | string[] | null): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  return Array.isArray(value) ? value.join(' ') : (value ?? '')
}

/**
 * Reads a text of `formatRequest` that came by mail: with `>` before its lines, with long lines wrapped, and with other text
 * around it. Null for any other text. The values are those of a stranger: nothing about them is checked here. A label that
 * is missing has an empty value.
 */
export function readRequest(text: string): RequestedApplication | null {
  if (text.length > maxRequestCharacters) return null
  const values = new Map<Label, string[]>()
  let current: Label | null = null
  for (const line of text.split(/\r\n?|\n/).map((sent) => sent.replace(/^[>\s]+/, '').trimEnd())) {
    if (line === lastLine) break
    const label: Label | null = current === 'Description' ? null : labelOf(line)
    if (label !== null) {
      current = label
      values.set(label, [line.slice(label.length + 1).trim()])
    } else if (current !== null) values.get(current)?.push(line)
  }
  const read = (label: Label, separator: string) => (values.get(label) ?? []).join(separator).trim()
  if (!values.has('Name') || !values.has('Redirect URL')) return null
  const resourceScope = read('Resources', '')
  return {
    name: read('Name', ' '),
    website: read('Website', ''),
    redirectUri: read('Redirect URL', ''),
    exactRedirect: read('Only this URL', '') === 'yes',
    isPublic: read('Public client', '') === 'yes',
    isDevice: read('For devices', '') === 'yes',
    // An unknown word is the narrowest choice.
    resourceScope: resourceScopes.find((known) => known === resourceScope) ?? 'public',
    scopes: [
      ...new Set(
        read('Scopes', ' ')
          .split(/\s+/)
          .filter((scope) => scope !== ''),
      ),
    ],
    developer: read('Developer', '') || null,
    description: read('Description', '\n'),
  }
}

function labelOf(line: string): Label | null {
  return (Object.keys(labels) as Label[]).find((label) => line.startsWith(`${label}:`)) ?? null
}
