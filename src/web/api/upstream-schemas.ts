import * as z from 'zod'
import { nameShape } from '../../domain/names.ts'
import { isPattern, maxPatterns } from '../../upstreams/documents/patterns.ts'
import { upstreamModes } from '../../upstreams/tables/upstreams.ts'
import { Moment } from './endpoint.ts'
import { RepositoryPath } from './repositories.ts'

const patterns = z
  .array(
    z
      .string()
      .max(500)
      .refine(isPattern, { message: 'must be a pattern such as vendor/* or vendor/package:^2' }),
  )
  .max(maxPatterns)

const Settings = z.strictObject({
  mode: z.enum(upstreamModes).meta({ description: 'Whether packages are offered without approval' }),
  allow: patterns.meta({
    description: 'Only these packages are offered; empty means all',
    example: ['symfony/*:^6'],
  }),
  deny: patterns.meta({ description: 'These packages are never offered', example: ['evil/*'] }),
  exempt: patterns.meta({
    description: 'The minimum age does not apply to these packages',
    example: ['acme/*'],
  }),
  minimum_age_hours: z
    .int()
    .min(0)
    .max(87_600)
    .meta({ description: 'A younger version is not offered', example: 24 }),
  keeps_source: z.boolean().meta({
    description: 'Whether versions keep their `source`, from which Composer can clone them without svc',
    example: false,
  }),
  position: z
    .int()
    .min(1)
    .max(1000)
    .meta({ description: 'The upstream with the lowest position is tried first', example: 1 }),
})

/** The body of a change of an upstream. */
export const UpstreamUpdate = Settings.partial().meta({
  id: 'UpstreamUpdate',
  description: 'Missing members keep their values',
})

/** The body of a new upstream. */
export const UpstreamDraft = Settings.partial()
  .extend({
    url: z
      .string()
      .min(1)
      .max(2000)
      .meta({ description: 'URL of the Composer repository', example: 'https://packages.example.com' }),
    name: z
      .string()
      .max(64)
      .regex(nameShape, {
        message: 'must be lower-case letters and digits, with single . _ or -',
      })
      .optional()
      .meta({ description: 'The default is made from the host of its URL', example: 'public' }),
  })
  .meta({ id: 'UpstreamDraft' })

/** An upstream, as the API returns it. */
export const UpstreamBody = z
  .object({
    ...Settings.shape,
    name: z.string().meta({ description: 'Name of the upstream', example: 'public' }),
    url: z
      .string()
      .meta({ description: 'URL of the Composer repository', example: 'https://packages.example.com' }),
    uses_credentials: z.boolean().meta({
      description: 'Whether requests to it have the credentials of the operator. Only operators change this',
      example: false,
    }),
    credential_hosts: z.array(z.string()).meta({
      description:
        'Other hosts that get these credentials, besides that of the URL. Only operators change this',
      example: ['api.github.com'],
    }),
    reaches_private_hosts: z.boolean().meta({
      description:
        'Whether requests to it reach the private hosts that the operator allows. Only operators change this',
      example: false,
    }),
    checked_at: Moment.nullable().meta({ description: 'When its packages.json was last read' }),
    failure: z.string().nullable().meta({
      description: 'Why packages.json could not be read at the last attempt',
      example: 'packages.json of the upstream is not JSON',
    }),
    failed_at: Moment.nullable().meta({ description: 'The time of that attempt' }),
    created_at: Moment.meta({ description: 'When it was added' }),
  })
  .meta({ id: 'Upstream' })

const ArchiveAlarm = z
  .object({
    version: z.string().meta({ description: 'Version whose archive has changed', example: '3.0.0' }),
    reason: z.string().meta({
      description: 'How it has changed',
      example: 'its bytes differ from those of the first fetch',
    }),
  })
  .meta({ id: 'ArchiveAlarm' })

const HeldVersion = z
  .object({
    version: z.string().meta({ description: 'A version that is too young', example: '3.0.0' }),
    until: Moment.meta({ description: 'When it is offered' }),
  })
  .meta({ id: 'HeldVersion' })

/** A package of an upstream, as the API returns it. */
export const MirroredPackageBody = z
  .object({
    name: z.string().meta({ description: 'Name of the package', example: 'psr/log' }),
    upstream: z
      .string()
      .nullable()
      .meta({ description: 'Name of the upstream that serves it', example: 'public' }),
    description: z.string().meta({ description: 'From its composer.json', example: 'Interface for logging' }),
    first_seen_at: Moment.nullable().meta({ description: 'When an upstream first served it' }),
    last_fetched_at: Moment.nullable().meta({ description: 'When its metadata was last requested' }),
    approved_at: Moment.nullable().meta({ description: 'Null while it is not approved' }),
    requested_at: Moment.nullable().meta({ description: 'When somebody asked for its approval' }),
    requester: z
      .string()
      .nullable()
      .meta({ description: 'Username of the account that asked for its approval', example: 'alice' }),
    gone_at: Moment.nullable().meta({ description: 'When the upstream was first seen without the package' }),
    minimum_age_hours: z.int().meta({ description: 'A younger version is not offered', example: 24 }),
    contested_by: z.array(z.string()).meta({
      description:
        'The upstreams before that one which have the package too. It is not offered until an admin decides which one serves it',
      example: ['private'],
    }),
    alarm: z.string().nullable().meta({
      description: 'How an archive has changed at the upstream. The changed bytes are not served',
      example: 'its bytes differ from those of the first fetch',
    }),
    alarms: z
      .array(ArchiveAlarm)
      .meta({ description: 'The versions whose archives have changed, the latest change first; at most 20' }),
    held_back: z.array(HeldVersion).meta({
      description: 'The versions that are not offered before they have the minimum age; at most 100',
    }),
    left_out: z.array(z.string()).meta({
      description: 'The versions that svc cannot offer, each with the reason; at most 20',
      example: ['1.0.0: the upstream offers it only as source, without an archive'],
    }),
  })
  .meta({ id: 'MirroredPackage' })

const packageName = z.string().min(1).max(150).meta({ description: 'Name of a package', example: 'psr/log' })
/** The body of an approval. */
export const Approval = z
  .strictObject({
    packages: z
      .array(packageName)
      .min(1)
      .max(1000)
      .meta({ description: 'Names of packages', example: ['psr/log'] }),
  })
  .meta({ id: 'Approval' })

/** The body of a request for an approval. */
export const ApprovalRequest = z.strictObject({ package: packageName }).meta({ id: 'ApprovalRequest' })

/** The result of an approval. */
export const ApprovedPackages = z
  .object({
    approved: z
      .array(z.string())
      .meta({ description: 'The packages that were not approved before', example: ['psr/log'] }),
  })
  .meta({ id: 'ApprovedPackages' })

/** The result of a request for an approval. */
export const ApprovalRequestState = z
  .object({
    state: z
      .enum(['requested', 'known'])
      .meta({ description: '`known` when the package is approved or requested already' }),
  })
  .meta({ id: 'ApprovalRequestState' })

/** The body of a decision to offer versions early. */
export const Allowance = z
  .strictObject({
    package: packageName,
    version: z.string().min(1).max(255).optional().meta({
      description: 'A version that is held back. Without it, all of them',
      example: '3.0.0',
    }),
  })
  .meta({ id: 'Allowance' })

/** The versions that are offered early now. */
export const AllowedVersions = z
  .object({
    allowed: z.array(z.string()).meta({ description: 'The versions', example: ['3.0.0'] }),
  })
  .meta({ id: 'AllowedVersions' })

/** The body of a request to forget stored archives. */
export const VersionToForget = z
  .strictObject({
    package: packageName,
    version: z.string().min(1).max(200).meta({ description: 'A version of the package', example: '3.0.0' }),
  })
  .meta({ id: 'VersionToForget' })

const ForgottenArchive = z
  .object({
    version: z.string().meta({ description: 'Version of the package', example: '3.0.0' }),
    sha256: z
      .string()
      .meta({ description: 'SHA-256 of the forgotten bytes, in hex', example: 'ab'.repeat(32) }),
    alarm: z.string().nullable().meta({
      description: 'How the archive had changed. Null when svc saw no change',
      example: 'its bytes differ from those of the first fetch',
    }),
  })
  .meta({ id: 'ForgottenArchive' })

/** The forgotten archives. */
export const ForgottenArchives = z
  .object({
    forgotten: z
      .array(ForgottenArchive)
      .meta({ description: 'The archives of the version: a development version has one for each commit' }),
  })
  .meta({ id: 'ForgottenArchives' })

/** The body of a decision about a package that several upstreams have. */
export const ContestDecision = z
  .strictObject({
    package: packageName,
    upstream: z
      .string()
      .min(1)
      .max(64)
      .meta({ description: 'Name of the upstream that serves the package', example: 'private' }),
  })
  .meta({ id: 'ContestDecision' })

/** The URL of an upstream. */
export const UpstreamPath = RepositoryPath.extend({
  upstream: z.string().meta({ description: 'Name of the upstream', example: 'public' }),
})
/** The query of the removal of an upstream. */
export const ReleaseQuery = z.object({
  release: z
    .enum(['true', 'false'])
    .default('false')
    .meta({ description: '`true` lets other upstreams serve its packages' }),
})
