import type { FastifyRequest } from 'fastify'
import * as z from 'zod'
import { type ResourceScope, resourceScopes } from '../../domain/permissions.ts'
import { tokenAlgorithms } from '../../domain/token-algorithm.ts'
import type { RegistrationForm } from '../../oauth/application-changes.ts'
import type { ApplicationChanges } from '../../oauth/application-seed.ts'
import type { Application, SignInSettings } from '../../oauth/applications.ts'
import { readForm, text, textList } from '../forms.ts'
import { readFile } from '../multipart-forms.ts'

const checkbox = z.literal('yes').optional()

const url = text.transform((sent) => sent.trim() || null)

const ApplicationFields = z.object({
  name: text,
  description: text,
  website: text,
  redirect_uri: text,
  exact_redirect: checkbox,
  public: checkbox,
  device: checkbox,
  id_token_alg: z.enum(tokenAlgorithms).default('RS256'),
  post_logout_redirect_uri: url,
  backchannel_logout_uri: url,
  resource_server: checkbox,
  pending: checkbox,
  developer: text.transform((username) => username.trim()),
  scope: textList,
  resource_scope: z.enum(resourceScopes).default('all'),
})

/** The fields of an application's form. */
export interface ApplicationForm
  extends Omit<RegistrationForm, 'logo' | 'description' | keyof SignInSettings>,
    SignInSettings {
  description: string
  developer: string | null
  /** Null when no file was chosen. */
  logo: Buffer | null
}

/** The form of a new application. */
export const emptyApplicationForm: ApplicationForm = {
  name: '',
  description: '',
  website: '',
  redirectUri: '',
  exactRedirect: false,
  isPublic: false,
  isDevice: false,
  idTokenAlg: 'RS256',
  postLogoutRedirectUri: null,
  backchannelLogoutUri: null,
  isResourceServer: false,
  status: 'approved',
  scopes: [],
  resourceScope: 'specified',
  developer: null,
  logo: null,
}

/** Each Authorization Resource Scope of SPEC 2.1 in the form, in words that fit a field on a phone. */
export const resourceScopeWords = resourceScopes.map((value: ResourceScope) => ({
  value,
  words: {
    all: 'All, private ones included',
    public: 'Public ones only',
    specified: 'Those that the person chooses',
  }[value],
}))

/** Reads the form as it was sent. Throws FormError for values that the page does not offer. */
export function readApplicationForm(request: FastifyRequest): ApplicationForm {
  const form = readForm(ApplicationFields, request)
  return {
    name: form.name,
    // Browsers send line ends as CRLF.
    description: form.description.replaceAll('\r\n', '\n'),
    website: form.website,
    redirectUri: form.redirect_uri,
    exactRedirect: form.exact_redirect === 'yes',
    isPublic: form.public === 'yes',
    isDevice: form.device === 'yes',
    idTokenAlg: form.id_token_alg,
    postLogoutRedirectUri: form.post_logout_redirect_uri,
    backchannelLogoutUri: form.backchannel_logout_uri,
    isResourceServer: form.resource_server === 'yes',
    status: form.pending === 'yes' ? 'pending' : 'approved',
    scopes: form.scope,
    resourceScope: form.resource_scope,
    developer: form.developer || null,
    logo: readFile(request, 'logo'),
  }
}

/** Returns a form with the values of an application. */
export function formOfApplication(application: Application): ApplicationForm {
  return { ...application, description: application.description ?? '', logo: null }
}

/** Returns the values that the form changes. Without a file, the logo stays. */
export function findChanges(application: Application, form: ApplicationForm): ApplicationChanges {
  const { name, website, redirectUri, exactRedirect, isPublic, isDevice, isResourceServer } = form
  const { resourceScope, developer, idTokenAlg, postLogoutRedirectUri, backchannelLogoutUri } = form
  const sent = {
    ...{ name, website, redirectUri, exactRedirect, isPublic, isDevice, isResourceServer },
    ...{ resourceScope, developer, idTokenAlg, postLogoutRedirectUri, backchannelLogoutUri },
  }
  const changed = Object.entries(sent).filter(
    ([key, value]) => application[key as keyof typeof sent] !== value,
  )
  const description = form.description || null
  const isSameScopes =
    form.scopes.length === application.scopes.length &&
    form.scopes.every((scope) => application.scopes.includes(scope))
  return {
    ...(Object.fromEntries(changed) as Partial<typeof sent>),
    ...(description !== application.description && { description }),
    ...(!isSameScopes && { scopes: form.scopes }),
    ...(form.logo && { logo: form.logo }),
  }
}
