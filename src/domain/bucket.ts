/** An S3 bucket that stores archives. */
export interface BucketSettings {
  name: string
  /** The prefix of all keys: empty, or with a slash at the end. */
  prefix: string
  /** The URL of the store, without a path. */
  endpoint: string
  region: string
  /** Whether the bucket name is in the path instead of the host name. */
  isPathStyle: boolean
  accessKeyId: string
  secretAccessKey: string
  /** The session token of temporary credentials. Null for others. */
  sessionToken: string | null
}

/** The parts of `s3://bucket/prefix?endpoint=…&region=…&path_style=true`. */
export type BucketLocation = Pick<BucketSettings, 'name' | 'prefix' | 'endpoint' | 'region' | 'isPathStyle'>

const parameters = ['endpoint', 'region', 'path_style']

/**
 * Reads the URL of a bucket. The default endpoint is that of Amazon S3. Returns a mistake as a text that follows the
 * name of the setting.
 */
export function readBucketUrl(text: string): BucketLocation | string {
  const example =
    'such as s3://bucket/prefix?endpoint=https://s3.example.com&region=eu-central-1&path_style=true'
  const [, name, path = '', query = ''] = /^s3:\/\/([^/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(text) ?? []
  if (name === undefined) return `must be empty or the URL of a bucket, ${example}`
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name)) return `has an invalid bucket name: ${name}`
  if (!/^[\w./-]*$/.test(path)) return 'may have only letters, digits and . _ - / in its prefix'
  const given = new URLSearchParams(query)
  const unknown = [...given.keys()].find((key) => !parameters.includes(key))
  if (unknown !== undefined) return `has an unknown parameter ${unknown}: use only ${parameters.join(', ')}`
  const region = given.get('region') ?? 'us-east-1'
  if (!/^[a-z0-9-]{1,50}$/.test(region)) return 'has an invalid region: use lower-case letters, digits and -'
  const style = given.get('path_style') ?? 'false'
  if (style !== 'true' && style !== 'false') return 'must have path_style=true or path_style=false'
  const endpoint = readEndpoint(given.get('endpoint') ?? `https://s3.${region}.amazonaws.com`)
  if (endpoint === null) return 'must have an endpoint that is an http or https URL without a path'
  const trimmed = path.replace(/^\/+|\/+$/g, '')
  return {
    name,
    prefix: trimmed === '' ? '' : `${trimmed}/`,
    endpoint,
    region,
    isPathStyle: style === 'true',
  }
}

/** Reads the URL of a bucket and its credentials. Returns a mistake as a text that follows the name of the setting. */
export function readBucket(
  text: string,
  { accessKeyId, secretAccessKey, sessionToken }: Credentials,
): BucketSettings | string {
  const location = readBucketUrl(text)
  if (typeof location === 'string') return location
  if (accessKeyId && secretAccessKey) {
    return { ...location, accessKeyId, secretAccessKey, sessionToken: sessionToken ?? null }
  }
  return 'needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY'
}

interface Credentials {
  accessKeyId: string | undefined
  secretAccessKey: string | undefined
  sessionToken: string | undefined
}

/** Reads credentials from the standard AWS variables. */
export function readAwsCredentials(env: NodeJS.ProcessEnv): Credentials {
  return {
    accessKeyId: env['AWS_ACCESS_KEY_ID'],
    secretAccessKey: env['AWS_SECRET_ACCESS_KEY'],
    sessionToken: env['AWS_SESSION_TOKEN'],
  }
}

/** Returns the origin of the URLs that clients are redirected to. */
export function bucketOrigin({ endpoint, name, isPathStyle }: BucketLocation): string {
  const url = new URL(endpoint)
  if (!isPathStyle) url.hostname = `${name}.${url.hostname}`
  return url.origin
}

function readEndpoint(text: string): string | null {
  if (!URL.canParse(text)) return null
  const url = new URL(text)
  const isPlain = url.pathname === '/' && url.search === '' && url.hash === '' && url.username === ''
  return isPlain && /^https?:$/.test(url.protocol) ? url.origin : null
}
