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
const json = (description: string, schema: keyof typeof registrySchemas) => ({
  description,
  content: { 'application/json': { schema: { $ref: `#/components/schemas/${schema}` } } },
})
const text = (description: string, example: string) => ({ type: 'string', description, example })

/** The schemas of the registry's responses. Composer's documents are described by Composer. */
export const registrySchemas = {
  UploadedVersion: {
    type: 'object',
    required: ['errcode', 'errmsg', 'name', 'version', 'sha256', 'shasum', 'size', 'url'],
    properties: {
      errcode: { type: 'integer', description: 'Always 0', example: 0 },
      errmsg: text('Always `ok`', 'ok'),
      name: text('Name of the package', 'acme/hello'),
      version: text('Semantic Version', '1.0.0'),
      sha256: text(
        'SHA-256 of the archive, hexadecimal',
        '0df35b8fe84bf0c44587e6b65e147395a81165edf8c6babf684701bf847d556e',
      ),
      shasum: text('SHA-1 of the archive, which Composer checks', '2fd4e1c67a2d28fced849ee1bb76e7391b93eb12'),
      size: { type: 'integer', description: 'Bytes of the archive', example: 12_345 },
      url: text(
        'The URL of the archive',
        'https://svc.example.com/acme/php/-/packages/dist/acme/hello/1.0.0/0df3….zip',
      ),
      details: {
        type: 'array',
        description: 'Warnings about the archive or its composer.json. Missing without warnings',
        items: { type: 'string' },
        example: ['"vendor/autoload.php" is a dependency packed with the package; exclude vendor/'],
      },
    },
  },
  UploadFormInput: {
    type: 'object',
    required: ['package'],
    properties: {
      package: { ...text('The zip archive', 'PK…'), format: 'binary' },
      attestations: text(
        'A bundle of Sigstore or an attestation object (PEP 740) in JSON, or an array of them. Only a token of a trusted publisher may send it. The field may be repeated; all have at most 64 KiB',
        '{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{},"dsseEnvelope":{}}',
      ),
    },
  },
  Provenance: {
    type: 'object',
    required: ['version', 'attestation_bundles'],
    description: 'A provenance object (PEP 740)',
    properties: {
      version: { type: 'integer', description: 'Always 1', example: 1 },
      attestation_bundles: {
        type: 'array',
        description: 'The attestations of one trusted publisher',
        items: {
          type: 'object',
          required: ['publisher', 'attestations'],
          properties: {
            publisher: {
              type: 'object',
              description: 'The trusted publisher whose job signed the attestations',
              example: { kind: 'GitHub', repository: 'acme/lib', workflow: 'release.yml', environment: null },
            },
            attestations: {
              type: 'array',
              description: 'The attestation objects, with what a verification needs',
              items: { type: 'object' },
              example: [{ version: 1, verification_material: {}, envelope: {} }],
            },
          },
        },
      },
    },
  },
  RegistryRoot: {
    type: 'object',
    description:
      'The packages.json of a Composer repository (https://getcomposer.org/doc/05-repositories.md)',
  },
  PackageMetadata: {
    type: 'object',
    required: ['packages', 'minified'],
    properties: {
      packages: {
        type: 'object',
        description: 'The versions of the package by its name, each as the difference to the one before',
        additionalProperties: { type: 'array', items: { type: 'object' } },
        example: { 'acme/hello': [{ name: 'acme/hello', version: '1.0.0' }] },
      },
      minified: text('The format of the differences', 'composer/2.0'),
    },
  },
} as const
const unauthorized = refusal('The token is missing, wrong, expired or revoked')
const notFound = refusal('It does not exist, or the token may not see it')

const upload = (operationId: string) => ({
  operationId,
  tags: ['Registry'],
  summary: 'Publish a version',
  description:
    'The body is the zip archive, or a form with it and its attestations. The same bytes again return 200; other bytes for a published version return 409. ' +
    'Requires the scope `registry-package:rw` and the role developer.',
  security,
  parameters: [...repository, ...packageName, version],
  requestBody: {
    required: true,
    content: {
      'application/zip': { schema: { type: 'string', format: 'binary' } },
      'multipart/form-data': { schema: { $ref: '#/components/schemas/UploadFormInput' } },
    },
  },
  responses: {
    '200': json('Exactly these bytes were published before', 'UploadedVersion'),
    '201': json('Published', 'UploadedVersion'),
    '400': refusal('The version, the archive or composer.json is not valid'),
    '401': unauthorized,
    '403': refusal('The token or the account may not publish here'),
    '409': refusal('The version is published with other bytes'),
    '413': refusal('The archive or its attestations are too large'),
  },
})

const read = (
  operationId: string,
  summary: string,
  parameters: object[],
  [description, schema]: [description: string, schema: keyof typeof registrySchemas],
) => ({
  operationId,
  tags: ['Registry'],
  summary,
  description:
    'Requires the scope `registry-package:r` unless the repository is public. Honors `If-Modified-Since`.',
  security: publicOrToken,
  parameters,
  responses: {
    '200': json(description, schema),
    '304': { description: 'Not modified' },
    '401': unauthorized,
    '404': notFound,
  },
})

/** Paths of the OpenAPI document below {registry_url} (SPEC 4.4, 4.5), and its own extensions. */
export const registryPaths: Record<string, object> = {
  [`${registryUrl}/upload/{vendor}/{package}/{version}`]: {
    put: upload('uploadVersion'),
    post: upload('postVersion'),
  },
  [`${registryUrl}/packages.json`]: {
    get: read('getRegistry', 'The root document of the registry', repository, [
      'URLs and package names for Composer',
      'RegistryRoot',
    ]),
  },
  [`${registryUrl}/p2/{vendor}/{package}.json`]: {
    get: read(
      'getPackageMetadata',
      'Metadata of all stable versions of a package, in Composer’s minified form',
      [...repository, ...packageName],
      ['The versions of the package', 'PackageMetadata'],
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
  [`${registryUrl}/integrity/{vendor}/{package}/{version}/provenance`]: {
    get: {
      operationId: 'getProvenance',
      tags: ['Registry'],
      summary: 'Get the attestations of a version',
      description:
        'They were verified when they were uploaded. Requires the scope `registry-package:r` unless the repository is public.',
      security: publicOrToken,
      parameters: [...repository, ...packageName, version],
      responses: {
        '200': json('The provenance object', 'Provenance'),
        '401': unauthorized,
        '404': refusal('The version has no attestations, it does not exist, or the token may not see it'),
      },
    },
  },
}
