/**
 * The registry's endpoints for the OpenAPI document. They follow Composer's protocol, and no zod schema describes them.
 */

const registryUrl = '/{group}/{name}/-/packages'
const security = [{ registryToken: [] }]
const publicOrToken = [{ registryToken: [] }, {}]

const path = (name: string, description: string, example: string) => ({
  name,
  in: 'path',
  required: true,
  description,
  schema: { type: 'string' },
  example,
})
const repository = [path('group', 'Name of the group', 'acme'), path('name', 'Name of the repository', 'php')]
const packageName = [path('vendor', 'Vendor', 'acme'), path('package', 'Package', 'hello')]
const version = path('version', 'Semantic Version', '1.0.0')
const refusal = (description: string) => ({
  description,
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
})
const json = (description: string) => ({
  description,
  content: { 'application/json': { schema: { type: 'object' } } },
})
const unauthorized = refusal('The token is missing, wrong, expired or revoked')
const notFound = refusal('It does not exist, or the token may not see it')

const upload = (operationId: string) => ({
  operationId,
  tags: ['Registry'],
  summary: 'Publish a version',
  description:
    'The body is the zip archive. The same bytes again return 200; other bytes for a published version return 409. ' +
    'Requires the scope `registry-package:rw` and the role developer.',
  security,
  parameters: [...repository, ...packageName, version],
  requestBody: {
    required: true,
    content: { 'application/zip': { schema: { type: 'string', format: 'binary' } } },
  },
  responses: {
    '200': json('Exactly these bytes were published before'),
    '201': json('Published: name, version, sha256, size and url'),
    '400': refusal('The version, the archive or composer.json is not valid'),
    '401': unauthorized,
    '403': refusal('The token or the account may not publish here'),
    '409': refusal('The version is published with other bytes'),
    '413': refusal('The archive is too large'),
  },
})

const read = (operationId: string, summary: string, parameters: object[], description: string) => ({
  operationId,
  tags: ['Registry'],
  summary,
  description:
    'Requires the scope `registry-package:r` unless the repository is public. Honors `If-Modified-Since`.',
  security: publicOrToken,
  parameters,
  responses: {
    '200': json(description),
    '304': { description: 'Not modified' },
    '401': unauthorized,
    '404': notFound,
  },
})

/** Paths of the OpenAPI document below {registry_url} (SPEC 4.4, 4.5). */
export const registryPaths: Record<string, object> = {
  [`${registryUrl}/upload/{vendor}/{package}/{version}`]: {
    put: upload('uploadVersion'),
    post: upload('postVersion'),
  },
  [`${registryUrl}/packages.json`]: {
    get: read(
      'getRegistry',
      'The root document of the registry',
      repository,
      'URLs and package names for Composer',
    ),
  },
  [`${registryUrl}/p2/{vendor}/{package}.json`]: {
    get: read(
      'getPackageMetadata',
      'Metadata of all stable versions of a package, in Composer’s minified form',
      [...repository, ...packageName],
      'The versions of the package',
    ),
  },
  [`${registryUrl}/dist/{vendor}/{package}/{version}/{sha256}.zip`]: {
    get: {
      operationId: 'downloadVersion',
      tags: ['Registry'],
      summary: 'Download an archive',
      description: 'Requires the scope `registry-package:r` unless the repository is public. Honors `Range`.',
      security: publicOrToken,
      parameters: [
        ...repository,
        ...packageName,
        version,
        path(
          'sha256',
          'SHA-256 of the archive, hexadecimal',
          '0df35b8fe84bf0c44587e6b65e147395a81165edf8c6babf684701bf847d556e',
        ),
      ],
      responses: {
        '200': {
          description: 'The archive, byte for byte as it was uploaded',
          content: { 'application/zip': { schema: { type: 'string', format: 'binary' } } },
        },
        '401': unauthorized,
        '404': notFound,
        '410': refusal('The version is quarantined; `warning` says why'),
      },
    },
  },
}
