import * as z from 'zod'
import { resourceScopes } from '../../domain/permissions.ts'
import { tokenAlgorithms } from '../../domain/token-algorithm.ts'
import { maxReasonCharacters } from '../../oauth/application-changes.ts'
import { registrationLimits } from '../../oauth/application-rules.ts'
import { applicationStatuses } from '../../oauth/applications.ts'
import { maxRedirectCharacters } from '../../oauth/redirect-uri.ts'
import { Moment } from './endpoint.ts'
import { PageQuery } from './paging.ts'

/** An application, as the API returns it. */
export const ApplicationBody = z
  .object({
    client_id: z.string().meta({ description: 'Client id', example: 'k2ma5aoyw2c473cwlop7' }),
    name: z.string().meta({ description: 'The name that people see', example: 'Build Bot' }),
    description: z.string().nullable().meta({ description: 'What it does', example: 'Builds your packages' }),
    status: z
      .enum(applicationStatuses)
      .meta({ description: 'Only an approved application can be authorized' }),
    status_reason: z
      .string()
      .nullable()
      .meta({ description: 'The reason that an administrator gave', example: 'Its website is gone' }),
    website: z.string().meta({ description: 'Its website', example: 'https://bot.example.com' }),
    redirect_uri: z.string().meta({
      description: 'Where people return to after they decided',
      example: 'https://bot.example.com/callback',
    }),
    exact_redirect: z
      .boolean()
      .meta({ description: 'Whether only this redirect URI is accepted, and no path below it' }),
    redirect_uris: z
      .array(z.string())
      .nullable()
      .meta({
        description: 'The redirect URIs that are accepted of its client metadata document. Null without one',
        example: ['https://app.example.com/callback'],
      }),
    unreviewed: z
      .boolean()
      .meta({ description: 'Whether it was made from a client metadata document without a review' }),
    scopes: z
      .array(z.string())
      .meta({ description: 'The scopes that it may ask for', example: ['registry-package:r'] }),
    resource_scope: z.enum(resourceScopes).meta({ description: 'Which repositories it may ask for' }),
    public: z
      .boolean()
      .meta({ description: 'Whether it is a program on the machines of people, which has no client secret' }),
    id_token_alg: z.enum(tokenAlgorithms).meta({ description: 'What signs its ID tokens', example: 'RS256' }),
    post_logout_redirect_uri: z.string().nullable().meta({
      description: 'Where the browser returns after a sign-out that it has begun',
      example: 'https://bot.example.com/goodbye',
    }),
    backchannel_logout_uri: z.string().nullable().meta({
      description: 'The URL that gets a logout token when a session ends',
      example: 'https://bot.example.com/backchannel-logout',
    }),
    device: z.boolean().meta({
      description: 'Whether it may ask with a code that the person confirms in a browser (RFC 8628)',
    }),
    resource_server: z.boolean().meta({
      description: 'Whether it may also introspect access, personal and deploy tokens that are not its own',
    }),
    created_at: Moment.meta({ description: 'When it was registered' }),
    developer: z
      .string()
      .nullable()
      .meta({ description: 'The username of who asked for it, and sees its state', example: 'ann' }),
    reviewed_by: z.string().nullable().meta({
      description: 'The username of who set its status. Null for a command, and while it is pending',
      example: 'root',
    }),
    reviewed_at: Moment.nullable().meta({ description: 'Null while it is pending' }),
  })
  .meta({ id: 'Application' })

/** An application with its use. */
export const UsedApplicationBody = ApplicationBody.extend({
  accounts: z.int().meta({ description: 'How many accounts have authorized it now', example: 12 }),
  last_used_at: Moment.nullable().meta({ description: 'Null when it was never used' }),
}).meta({ id: 'UsedApplication' })

const migration = z.string().nullable().meta({
  description: 'The migration that was written for the change. Null when none was written',
  example: '0101_application_build_bot.sql',
})
/** An application after a change. */
export const ChangedApplicationBody = ApplicationBody.extend({ migration }).meta({ id: 'ChangedApplication' })

const url = z.string().max(5000).nullable()

/** The body of a change of an application. */
export const ApplicationUpdate = z
  .strictObject({
    name: z
      .string()
      .max(200)
      .meta({ ...ApplicationBody.shape.name.meta(), maxLength: registrationLimits.name }),
    description: z
      .string()
      .max(1000)
      .meta({ maxLength: registrationLimits.description })
      .nullable()
      .meta({ ...ApplicationBody.shape.description.meta() }),
    website: z
      .string()
      .max(1000)
      .meta({ ...ApplicationBody.shape.website.meta(), maxLength: registrationLimits.website }),
    redirect_uri: z
      .string()
      .max(5000)
      .meta({ ...ApplicationBody.shape.redirect_uri.meta(), maxLength: maxRedirectCharacters }),
    exact_redirect: ApplicationBody.shape.exact_redirect,
    scopes: z
      .array(z.string().max(100))
      .max(100)
      .meta({ ...ApplicationBody.shape.scopes.meta() }),
    resource_scope: ApplicationBody.shape.resource_scope,
    public: ApplicationBody.shape.public,
    device: ApplicationBody.shape.device,
    id_token_alg: ApplicationBody.shape.id_token_alg,
    post_logout_redirect_uri: url.meta({ ...ApplicationBody.shape.post_logout_redirect_uri.meta() }),
    backchannel_logout_uri: url.meta({ ...ApplicationBody.shape.backchannel_logout_uri.meta() }),
    resource_server: ApplicationBody.shape.resource_server,
    developer: z
      .string()
      .max(100)
      .nullable()
      .meta({ ...ApplicationBody.shape.developer.meta() }),
  })
  .partial()
  .meta({ id: 'ApplicationUpdate', description: 'Missing members keep their values' })

/** The body of a review of an application. */
export const Review = z
  .strictObject({
    reason: z.string().max(1000).optional().meta({
      description: 'The reason, for administrators and the developer. Required for declining',
      maxLength: maxReasonCharacters,
      example: 'Its website is gone',
    }),
    migration: z
      .boolean()
      .optional()
      .meta({ description: 'False to change only this database, also where the operator keeps migrations' }),
  })
  .meta({ id: 'ApplicationReview' })

/** The body of a request for a new client secret. */
export const Rotation = z
  .strictObject({
    overlap_seconds: z.int().min(0).max(31_536_000).optional().meta({
      description: 'Seconds for which the old secret still works, by default 1 day',
      example: 86_400,
    }),
  })
  .meta({ id: 'SecretRotation' })
/** A new client secret. */
export const NewSecret = z
  .object({
    client_secret: z.string().meta({ description: 'Returned only once', example: 'svcs_4bTn…' }),
    overlap_seconds: z
      .int()
      .meta({ description: 'Seconds for which the old secret still works', example: 86_400 }),
  })
  .meta({ id: 'NewSecret' })

/** An event of an application. */
export const ApplicationEvent = z.record(z.string(), z.unknown()).meta({ id: 'ApplicationEvent' })

/** The URL of an application. */
export const ApplicationPath = z.object({
  client_id: z.string().meta({ description: 'Client id of the application', example: 'k7c2' }),
})
/** The query of the list of applications. */
export const ApplicationsQuery = PageQuery.extend({
  state: z.enum(applicationStatuses).optional().meta({ description: 'Only applications in this state' }),
})
