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
  credentials: CredentialSource
}

/** The keys that sign requests to a bucket. */
export interface BucketKeys {
  accessKeyId: string
  secretAccessKey: string
  /** The session token of temporary keys. Null for others. */
  sessionToken: string | null
}

/**
 * Where the keys come from: the operator has given them, or they are temporary ones of a role. `web-identity`: a file has a
 * token for the security token service of AWS, as in Kubernetes. `container`: an agent beside the container has them, as in
 * ECS and EKS. `instance`: the metadata service of a virtual machine has them.
 */
export type CredentialSource =
  | { kind: 'keys'; keys: BucketKeys }
  | { kind: 'web-identity'; endpoint: string; roleArn: string; sessionName: string; tokenFile: string }
  | { kind: 'container'; url: string; token: string | null; tokenFile: string | null }
  | { kind: 'instance'; endpoint: string }

/** The parts of `s3://bucket/prefix?endpoint=…&region=…&path_style=true`. */
export type BucketLocation = Pick<BucketSettings, 'name' | 'prefix' | 'endpoint' | 'region' | 'isPathStyle'>

const parameters = ['endpoint', 'region', 'path_style']

/**
 * Reads the URL of a bucket. The default endpoint is that of Amazon S3. Returns a mistake as a text that follows the
 * name of the setting.
 */
function readBucketUrl(text: string): BucketLocation | string {
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

/**
 * Reads the URL of a bucket, and from the environment where its keys come from. Returns a mistake as a text that follows the
 * name of the setting.
 */
export function readBucket(text: string, env: NodeJS.ProcessEnv): BucketSettings | string {
  const location = readBucketUrl(text)
  if (typeof location === 'string') return location
  const credentials = readCredentials(env, location)
  return typeof credentials === 'string' ? credentials : { ...location, credentials }
}

const containerHost = 'http://169.254.170.2'
const metadataService = 'http://169.254.169.254'

/** Reads the variables that AWS defines, in the order of its own programs: keys, web identity, container, instance. */
function readCredentials(env: NodeJS.ProcessEnv, location: BucketLocation): CredentialSource | string {
  const given = (name: string) => env[name] || null
  const accessKeyId = given('AWS_ACCESS_KEY_ID')
  const secretAccessKey = given('AWS_SECRET_ACCESS_KEY')
  if (accessKeyId !== null && secretAccessKey !== null)
    return { kind: 'keys', keys: { accessKeyId, secretAccessKey, sessionToken: given('AWS_SESSION_TOKEN') } }
  if (accessKeyId !== null || secretAccessKey !== null)
    return 'needs both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY'

  const identityFile = given('AWS_WEB_IDENTITY_TOKEN_FILE')
  if (identityFile !== null) {
    const roleArn = given('AWS_ROLE_ARN')
    if (roleArn === null) return 'needs AWS_ROLE_ARN with AWS_WEB_IDENTITY_TOKEN_FILE'
    const endpoint = readEndpoint(
      given('AWS_ENDPOINT_URL_STS') ?? tokenService(given('AWS_REGION') ?? location.region),
    )
    if (endpoint === null) return 'needs an http or https URL without a path in AWS_ENDPOINT_URL_STS'
    const sessionName = given('AWS_ROLE_SESSION_NAME') ?? 'svc'
    return { kind: 'web-identity', endpoint, roleArn, sessionName, tokenFile: identityFile }
  }

  const path = given('AWS_CONTAINER_CREDENTIALS_RELATIVE_URI')
  const url = path === null ? given('AWS_CONTAINER_CREDENTIALS_FULL_URI') : containerHost + path
  if (url !== null) {
    if (!isContainerUrl(url))
      return 'needs an https URL, or a local one, in AWS_CONTAINER_CREDENTIALS_FULL_URI'
    const token = given('AWS_CONTAINER_AUTHORIZATION_TOKEN')
    return { kind: 'container', url, token, tokenFile: given('AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE') }
  }

  // Other stores than Amazon S3 have no such service. A request to its IP would only delay the error.
  const service =
    given('AWS_EC2_METADATA_SERVICE_ENDPOINT') ??
    (/\.amazonaws\.com(?:\.cn)?$/.test(new URL(location.endpoint).hostname) ? metadataService : null)
  if (service === null || given('AWS_EC2_METADATA_DISABLED') === 'true')
    return 'needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY'
  const endpoint = readEndpoint(service)
  if (endpoint === null)
    return 'needs an http or https URL without a path in AWS_EC2_METADATA_SERVICE_ENDPOINT'
  return { kind: 'instance', endpoint }
}

function tokenService(region: string): string {
  return `https://sts.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
}

/** Returns whether an URL may get the token of a container: over https, or at an IP that only this machine reaches. */
function isContainerUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname } = new URL(text)
  const isLocal = /^(?:localhost|127(?:\.\d+){3}|\[::1\]|169\.254\.170\.(?:2|23)|\[fd00:ec2::23\])$/.test(
    hostname,
  )
  return protocol === 'https:' || (protocol === 'http:' && isLocal)
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
