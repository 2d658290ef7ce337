import type { FastifyRequest } from 'fastify'
import {
  findHeldForm,
  holdForm,
  maxHeldBytes,
  maxHeldUrlCharacters,
  spendHeldForm,
} from '../accounts/second-factor/held-forms.ts'
import type { Session } from '../accounts/sessions.ts'
import type { AppContext } from '../context.ts'
import { parseForm, sentFormOf } from './forms.ts'
import { hasFile } from './multipart-forms.ts'
import { PageError } from './page-error.ts'

/** Fields that no form leaves in the database: passwords, codes, responses of passkeys, and secrets of Git servers. */
export const secretFields: ReadonlySet<string> = new Set([
  'password',
  'current_password',
  'new_password',
  'repeated_password',
  'code',
  'recovery_code',
  'credential',
  'secret',
  'ssh_key',
  'hook_secret',
])

/** The page that sends a held form after the confirmation. */
export const continuePath = '/settings/confirm-access/continue'

/**
 * Keeps the form of a request until its person has confirmed who they are. Returns the path of the page that sends it.
 * Null when it cannot be kept: it has a secret or a file, or is too large.
 */
export async function holdRequest(
  { db }: AppContext,
  request: FastifyRequest,
  session: Session,
  page: string,
): Promise<string | null> {
  const form = sentFormOf(request)
  if (form === null || hasFile(request)) return null
  const url = withoutResume(request.url)
  const kept = [...form].filter(([name]) => name !== 'csrf_token')
  if (kept.some(([name]) => secretFields.has(name))) return null
  const pairs = kept.flatMap(([name, values]) => values.map((value) => [name, value]))
  const fields = new URLSearchParams(pairs).toString()
  if (fields.length > maxHeldBytes || Math.max(url.length, page.length) > maxHeldUrlCharacters) return null
  return continueWith(await holdForm(db, session.idHash, { url, page, fields }))
}

/** Returns the path of the page that sends the held form with this id. */
export function continueWith(id: string): string {
  return `${continuePath}?${new URLSearchParams({ form: id })}`
}

/** Returns the URL that takes the held form with this id in place of the body of the request. */
export function resumeUrl(url: string, id: string): string {
  return `${url}${url.includes('?') ? '&' : '?'}${new URLSearchParams({ resume: id })}`
}

/** Returns the id of the held form that a POST sends. Null for every other request. */
export function resumedId({ method, url }: FastifyRequest): string | null {
  return method === 'POST' ? (resumed.exec(url)?.[1] ?? null) : null
}

/**
 * Puts the held form that a POST names in the place of its body. It can be sent once, by the session that sent it before.
 * Throws the 410 page when it is gone.
 */
export async function resumeForm(
  { db }: AppContext,
  request: FastifyRequest,
  session: Session,
  id: string,
): Promise<void> {
  const fields = await spendHeldForm(db, session.idHash, id, withoutResume(request.url))
  if (fields === null) throw formIsGone()
  request.body = { form: parseForm(fields) }
}

/** Finds the form that the page of `continuePath` sends. Throws the 410 page when it is gone. */
export async function heldFormOf({ db }: AppContext, session: Session, id: string) {
  const held = await findHeldForm(db, session.idHash, id)
  if (!held) throw formIsGone()
  return held
}

const resumed = /[?&]resume=([\w-]{43})$/

function withoutResume(url: string): string {
  return url.replace(resumed, '')
}

function formIsGone(): PageError {
  return new PageError(
    410,
    'Your form was sent already, or it waited for more than 15 minutes. Look whether it was done. If not, fill it in again.',
  )
}
