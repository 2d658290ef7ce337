import type { FastifyRequest } from 'fastify'
import * as z from 'zod'
import { isCalendarDay } from '../../../domain/calendar-day.ts'
import type { Expiry } from '../../../domain/expiry.ts'
import { enforcedScopes, type ResourceScope, resourceScopes } from '../../../domain/permissions.ts'
import { isPlainText } from '../../../domain/plain-text.ts'
import { covers, isScope } from '../../../domain/scopes.ts'
import { readForm, text, textList } from '../../forms.ts'

/** Lifetimes that the form offers, in days. */
export const lifetimesInDays = [7, 30, 90, 365] as const
const dayMilliseconds = 86_400_000
/** The maximum number of chosen repositories. */
const maxChosen = 500

/** The query that fills the form in: `?preset=pull&repository=acme/php`. */
export const PresetQuery = z.object({ preset: text, repository: textList })

const NewTokenForm = z.object({
  name: text,
  preset: text,
  scope: textList,
  resource_scope: text,
  repository: textList,
  search: text,
  lifetime_in_days: text,
  expires_on: text,
  admin: z.literal('yes').optional(),
})

/** The values of the form, as they were sent or as a preset fills them. */
export interface TokenForm {
  name: string
  /** A key of `presets`. Otherwise, the token gets `scopes`. */
  preset: string
  scopes: string[]
  resourceScope: string
  /** Paths, such as `acme/php`. */
  repositories: string[]
  /** The search in the list of repositories. */
  search: string
  /** One of `lifetimesInDays`, `date` or `never`. */
  lifetimeInDays: string
  /** Used with `date`. */
  expiresOn: string
  isAdmin: boolean
}

/** The values of a valid form. */
export interface TokenChoice {
  name: string
  scopes: string[]
  resourceScope: ResourceScope
  repositoryIds: string[]
  expiry: Expiry
  isAdmin: boolean
}

/** Common tasks of tokens, which the form offers before the single permissions. A link can choose one. */
export const presets: Record<string, { title: string; hint: string; scopes: readonly string[] }> = {
  pull: {
    title: 'Install packages',
    hint: 'For Composer, also in builds.',
    scopes: ['registry-package:r'],
  },
  publish: {
    title: 'Publish packages',
    hint: 'Includes installing them.',
    scopes: ['registry-package:rw'],
  },
  manage: {
    title: 'Manage repositories',
    hint: 'Also deletes packages, and changes members and settings.',
    scopes: ['registry-package:rw', 'registry-package-delete:rw', 'registry-manage:rw', 'repo-basic-info:r'],
  },
  everything: {
    title: 'Everything',
    hint: 'All that you may do, also deleting groups.',
    scopes: enforcedScopes.filter((scope) => !enforcedScopes.includes(`${scope}w`)),
  },
}

/** Returns the form with the values of a query: `?preset=pull&repository=acme/php`. */
export function presetForm(query: z.output<typeof PresetQuery>): TokenForm {
  const repositories = query.repository.slice(0, maxChosen)
  const preset = presets[query.preset]
  return {
    name: preset?.title ?? '',
    preset: preset?.title ? query.preset : 'pull',
    scopes: [],
    resourceScope: repositories.length > 0 ? 'specified' : 'all',
    repositories,
    search: '',
    lifetimeInDays: '30',
    expiresOn: '',
    isAdmin: false,
  }
}

/** Returns the form as it was sent, without validation. */
export function enteredTokenForm(request: FastifyRequest): TokenForm {
  const form = readForm(NewTokenForm, request)
  return {
    name: form.name.trim(),
    preset: form.preset,
    scopes: form.scope,
    resourceScope: form.resource_scope,
    repositories: form.repository.slice(0, maxChosen),
    search: form.search.trim().slice(0, 200),
    lifetimeInDays: form.lifetime_in_days,
    expiresOn: form.expires_on,
    isAdmin: form.admin === 'yes',
  }
}

/**
 * Validates the form. Returns a problem as a sentence. `chosen` are the selected repositories that the account may use.
 */
export function readChoice(
  form: TokenForm,
  chosen: readonly { id: string; path: string }[],
): TokenChoice | string {
  const { name } = form
  const scopes = presets[form.preset]?.scopes ?? form.scopes
  if (name === '' || Array.from(name).length > 100) return 'Give the token a name of 1 to 100 characters.'
  if (!isPlainText(name)) return 'Give the token a name without control characters.'
  if (scopes.length === 0) return 'Choose at least one permission.'
  if (!scopes.every(isScope)) return 'One of the permissions does not exist.'
  const resourceScope = resourceScopes.find((one) => one === form.resourceScope)
  if (!resourceScope) return 'Choose which repositories the token can access.'
  const { isAdmin } = form
  if (isAdmin && resourceScope !== 'all')
    return 'A token for site administration can access everything. Choose so.'
  const isSpecified = resourceScope === 'specified'
  if (isSpecified && chosen.length === 0) return 'Choose at least one repository.'
  // Reject the contradiction: the token must not get more access than the person wanted.
  if (!isSpecified && chosen.length > 0) {
    return 'You selected repositories. Also choose “Only the repositories you choose”, or clear the selection.'
  }
  const expiry = readExpiry(form)
  if (typeof expiry === 'object' && 'problem' in expiry) return expiry.problem
  const repositoryIds = isSpecified ? chosen.map(({ id }) => id) : []
  return { name, scopes: withoutCovered(scopes), resourceScope, repositoryIds, expiry, isAdmin }
}

/**
 * Returns when the token expires, or the problem as a sentence. A date counts until its end in UTC. A date together
 * with another choice is rejected, because it is unclear which one was meant.
 */
export function readExpiry({
  lifetimeInDays,
  expiresOn,
}: Pick<TokenForm, 'lifetimeInDays' | 'expiresOn'>): Expiry | { problem: string } {
  if (lifetimeInDays === 'date') {
    if (!isCalendarDay(expiresOn))
      return { problem: 'The date is not valid. Write it as year-month-day, such as 2027-01-31.' }
    const end = new Date(`${expiresOn}T23:59:59Z`)
    return end.getTime() > Date.now() ? { at: end } : { problem: 'The date is in the past.' }
  }
  if (expiresOn !== '') return { problem: 'You entered a date. Also choose “on a date”, or clear the date.' }
  if (lifetimeInDays === 'never') return 'never'
  const inDays = lifetimesInDays.find((days) => `${days}` === lifetimeInDays)
  return inDays ? { inDays } : { problem: 'Choose when the token expires.' }
}

/** Returns tomorrow in the format of the form's date field. */
export function tomorrow(): string {
  return new Date(Date.now() + dayMilliseconds).toISOString().slice(0, 10)
}

/** Removes each `:r` scope whose `:rw` is present. */
function withoutCovered(scopes: readonly string[]): string[] {
  const different = [...new Set(scopes)]
  return different.filter(
    (scope) =>
      !covers(
        different.filter((other) => other !== scope),
        scope,
      ),
  )
}
