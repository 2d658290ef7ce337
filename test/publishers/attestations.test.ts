import { writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { operator } from '../../src/domain/principal.ts'
import { releaseStage } from '../../src/packages/stages/release.ts'
import { findStage } from '../../src/packages/tables/staged-versions.ts'
import type { NewPublisher } from '../../src/publishers/trusted-publishers.ts'
import { openTrustedRoots } from '../../src/publishers/trusted-roots.ts'
import { aDeployToken, aRepository, groupOf } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { issuersHere, useCiIssuer } from '../support/ci-issuer.ts'
import { eventsOf } from '../support/event-rows.ts'
import { aTrustedRepository, jobClaims, pullWith, uploadForm } from '../support/publisher-actors.ts'
import { aPackageZip, aPublisher } from '../support/registry-actors.ts'
import {
  aSigstore,
  asAttestation,
  type CertificateWords,
  jobWords,
  statementAbout,
  type TestBundle,
} from '../support/sigstore.ts'

const sigstore = await aSigstore()
const stranger = await aSigstore()
const t = useApp({ ...issuersHere, TRUSTED_ROOT_FILE: sigstore.rootFile })
const untrusting = useApp(issuersHere)
const ci = useCiIssuer()
const zip = aPackageZip('acme/lib')

/** A repository whose trusted publisher has a token, and what its job signs. */
async function aTrustedJob(wanted: Partial<NewPublisher> = {}, visibility: 'public' | 'private' = 'private') {
  const place = await aRepository(t.db, { visibility })
  const { repository, exchange } = await aTrustedRepository(t, ci, wanted, place)
  const response = await exchange(await ci.sign(jobClaims))
  const { access_token: token } = response.json()
  const upload = (attestations: (string | object)[], options: Parameters<typeof uploadForm>[3] = {}) =>
    uploadForm(t, repository, token, { zip, attestations, ...options })
  const provenance = (version = '1.0.0') =>
    pullWith(t, repository, token, `integrity/acme/lib/${version}/provenance`)
  return { repository, token, upload, provenance }
}

/** What the job of the publisher signs about the archive. */
function signed(words: CertificateWords = {}, statement: object = statementAbout(zip)): Promise<TestBundle> {
  return sigstore.sign(statement, { ...jobWords(ci.issuer), ...words })
}

describe('an upload with attestations', () => {
  it('publishes the version with its provenance', async () => {
    const { upload, provenance, repository } = await aTrustedJob()
    const bundle = await signed()
    expect((await upload([bundle])).statusCode).toBe(201)
    const found = await provenance()
    expect([found.statusCode, found.headers['content-type']]).toEqual([200, 'application/json'])
    const document = found.json()
    expect(document).toMatchObject({
      version: 1,
      attestation_bundles: [
        {
          publisher: {
            kind: 'GitHub',
            repository: 'acme/lib',
            workflow: 'release.yml',
            environment: null,
            claims: { iss: ci.issuer },
          },
          attestations: [asAttestation(bundle)],
        },
      ],
    })
    const [event] = await eventsOf(t.db, { repositoryId: repository.id, action: 'publish' }, ['details'])
    expect(event?.details).toMatchObject({ attestations: 1 })
  })

  it('takes attestation objects, arrays, a repeated field and a file', async () => {
    const [one, other] = [
      await signed(),
      await signed({}, statementAbout(zip, { predicateType: 'https://cyclonedx.org/bom' })),
    ]
    for (const [sent, count] of [
      [[asAttestation(one)], 1],
      [[[asAttestation(one), other]], 2],
      [[one, other], 2],
    ] as const) {
      const { upload, provenance } = await aTrustedJob()
      expect((await upload([...sent], { isFile: sent.length === 1 })).statusCode).toBe(201)
      expect((await provenance()).json().attestation_bundles[0].attestations).toHaveLength(count)
    }
  })

  it('keeps only what was verified', async () => {
    const { upload, provenance } = await aTrustedJob()
    const { verificationMaterial, ...others } = await signed()
    const [entry] = verificationMaterial.tlogEntries
    const material = { ...verificationMaterial, tlogEntries: [{ ...entry, comment: 'unverified' }] }
    await upload([{ ...others, comment: 'unverified', verificationMaterial: material }])
    expect((await provenance()).body).not.toContain('unverified')
  })

  it('is named in the API and on the page, with its job and its log entry', async () => {
    const { upload, repository } = await aTrustedJob({}, 'public')
    const bundle = await signed()
    await upload([bundle])
    const logIndex = bundle.verificationMaterial.tlogEntries[0]?.['logIndex']
    const log_url = `https://log.test/api/v1/log/entries?logIndex=${String(logIndex)}`
    const run_url = `${ci.issuer}/acme/lib/actions/runs/99`
    const { call } = await aCaller(t, { repository })
    const version = (await call('GET', '/packages/acme/lib/1.0.0')).json()
    expect(version.attestations).toEqual([
      {
        predicate_type: 'https://slsa.dev/provenance/v1',
        provider: 'github',
        project: 'acme/lib',
        workflow: 'release.yml',
        ref: 'refs/tags/v1.0.0',
        commit: '9fceb02d0ae598e95dc970b74767f19372d61af8',
        run_url,
        log_url,
      },
    ])
    expect((await t.app.inject(new URL(version.provenance_url).pathname)).json().version).toBe(1)
    const home = `/${repository.path}/packages/acme/lib`
    const { body } = await t.app.inject(home)
    expect(body).toContain('Build provenance, signed by')
    expect(body).toContain('verified when uploaded')
    expect(body).toContain(`<a href="${log_url}"`)
    const [, json = ''] = /<a href="([^"]+\/-\/provenance[^"]*)"/.exec(body) ?? []
    expect((await t.app.inject(json)).json().attestation_bundles).toHaveLength(1)
  })

  it('accepts what a job of GitLab signs', async () => {
    const place = await aRepository(t.db)
    const wanted = { provider: 'gitlab', workflow: null } as const
    const { repository, exchange } = await aTrustedRepository(t, ci, wanted, place)
    const file = `${new URL(ci.issuer).host}/acme/lib//.gitlab-ci.yml@refs/tags/v1.0.0`
    const claims = {
      project_path: 'acme/lib',
      project_id: '17',
      namespace_id: '4',
      ci_config_ref_uri: file,
      ref_protected: 'true',
    }
    const { access_token: token } = (await exchange(await ci.sign(claims))).json()
    const words = { 9: `https://${file}`, 18: `https://${file}`, 21: `${ci.issuer}/acme/lib/-/jobs/5` }
    const response = await uploadForm(t, repository, token, { zip, attestations: [await signed(words)] })
    expect([response.statusCode, response.body]).toEqual([201, expect.anything()])
  })

  it('compares all conditions of the provider claims with the certificate', async () => {
    const claims = [{ name: 'repository', value: 'acme/lib' }]
    const wanted = { provider: 'claims', project: null, workflow: null } as const
    const named = await aTrustedJob({ ...wanted, claims })
    expect((await named.upload([await signed()])).statusCode).toBe(201)
    const unsaid = await aTrustedJob({ ...wanted, claims: [...claims, { name: 'sub', value: 'a job' }] })
    expect((await unsaid.upload([await signed()])).json().warning).toContain('The claim sub differs')
  })
})

describe('the same bytes again', () => {
  it('add attestations to a version that has none, and keep those that it has', async () => {
    const { upload, provenance, repository } = await aTrustedJob()
    expect((await upload([])).statusCode).toBe(201)
    expect((await provenance()).statusCode).toBe(404)
    const first = await signed()
    expect((await upload([first])).statusCode).toBe(200)
    expect((await upload([await signed()])).statusCode).toBe(200)
    expect((await upload([])).statusCode).toBe(200)
    const { attestation_bundles: bundles } = (await provenance()).json()
    expect(bundles[0].attestations).toEqual([asAttestation(first)])
    const events = await eventsOf(t.db, { repositoryId: repository.id, action: 'attest' }, ['details'])
    expect(events).toHaveLength(1)
    expect(events[0]?.details).toMatchObject({ attestations: 1, run: { project: 'acme/lib' } })
  })

  it('are refused with attestations of another job', async () => {
    const { upload, provenance } = await aTrustedJob()
    await upload([])
    expect((await upload([await signed({ 8: 'https://other.test' })])).statusCode).toBe(400)
    expect((await provenance()).statusCode).toBe(404)
  })
})

describe('a stage with attestations', () => {
  it.each(['staged with them', 'staged again with them'])(
    'publishes them with the release when %s',
    async (how) => {
      const { upload, provenance, repository } = await aTrustedJob()
      if (how === 'staged again with them') expect((await upload([], { to: 'stage' })).statusCode).toBe(202)
      const staged = await upload([await signed()], { to: 'stage' })
      expect(staged.statusCode).toBe(202)
      expect((await provenance()).statusCode).toBe(404)
      const { id } = staged.json()
      const { call } = await aCaller(t, { repository })
      expect((await call('GET', `/stages/${id}`)).json().attestations).toHaveLength(1)
      const stage = await findStage(t.db, id)
      if (!stage) throw new Error('nothing is staged')
      await releaseStage(t.db, { stage, by: operator, baseUrl: 'http://svc.test' })
      expect((await provenance()).json().attestation_bundles[0].attestations).toHaveLength(1)
    },
  )
})

describe('GET integrity/<vendor>/<package>/<version>/provenance', () => {
  it('needs the permission of a pull', async () => {
    const { upload, repository } = await aTrustedJob()
    await upload([await signed()])
    const url = `/${repository.path}/-/packages/integrity/acme/lib/1.0.0/provenance`
    expect((await t.app.inject(url)).statusCode).toBe(401)
    const other = await aPublisher(t)
    expect((await t.app.inject({ url, headers: { authorization: other.authorization } })).statusCode).toBe(
      404,
    )
    expect((await t.app.inject(`/${repository.path}/packages/acme/lib/-/provenance`)).statusCode).toBe(404)
  })

  it('is 404 without attestations, and for an unknown version', async () => {
    const { upload, provenance } = await aTrustedJob()
    await upload([])
    expect((await provenance()).json()).toEqual({ errcode: 5, errmsg: 'this version has no attestations' })
    expect((await provenance('2.0.0')).statusCode).toBe(404)
  })
})

/** Attestations that are refused, with what the response says. */
const wrong: Record<string, [() => Promise<(string | object)[]>, string]> = {
  'text that is no JSON': [async () => ['{'], 'must be JSON'],
  'an empty text': [async () => [''], 'must be JSON'],
  'an empty array': [async () => [[]], 'must have 1 to 4 entries'],
  'five attestations': [async () => [await Promise.all([1, 2, 3, 4, 5].map(() => signed()))], '1 to 4'],
  'another object': [async () => [{ version: 2 }], 'must be an attestation object'],
  null: [async () => [[null]], 'must be an attestation object'],
  'no entry of a log': [
    async () => [
      changed(await signed(), ({ verificationMaterial }) => (verificationMaterial.tlogEntries = [])),
    ],
    'no entry of a transparency log',
  ],
  'no certificate': [
    async () => {
      const { verificationMaterial, ...others } = await signed()
      const { certificate: _, ...material } = verificationMaterial
      return [{ ...others, verificationMaterial: { ...material, publicKey: { hint: 'mine' } } }]
    },
    'has no certificate',
  ],
  'bytes that are no certificate': [
    async () => [
      changed(await signed(), ({ verificationMaterial: { certificate } }) => (certificate.rawBytes = 'AAAA')),
    ],
    'cannot be verified',
  ],
  'another signature': [
    async () => [
      changed(await signed(), ({ dsseEnvelope: { signatures } }) => {
        const [signature] = signatures
        if (signature) signature.sig = Buffer.from('another').toString('base64')
      }),
    ],
    'cannot be verified',
  ],
  'another statement below the signature': [
    async () => [
      changed(await signed({}, statementAbout(Buffer.from('other'))), ({ dsseEnvelope }) => {
        dsseEnvelope.payload = Buffer.from(JSON.stringify(statementAbout(zip))).toString('base64')
      }),
    ],
    'cannot be verified',
  ],
  'another time of the log': [
    async () => [
      changed(await signed(), ({ verificationMaterial: { tlogEntries } }) => {
        if (tlogEntries[0]) tlogEntries[0]['integratedTime'] = '1700000000'
      }),
    ],
    'cannot be verified',
  ],
  'the log entry of another attestation': [
    async () => {
      const { verificationMaterial } = await signed()
      return [
        changed(await signed(), (bundle) => {
          bundle.verificationMaterial.tlogEntries = verificationMaterial.tlogEntries
        }),
      ]
    },
    'cannot be verified',
  ],
  'a certificate of another authority': [
    async () => [await stranger.sign(statementAbout(zip), jobWords(ci.issuer))],
    'cannot be verified',
  ],
  'a certificate that had expired': [
    async () => [
      await sigstore.sign(statementAbout(zip), jobWords(ci.issuer), {
        loggedAt: new Date(Date.now() + 3_600_000),
      }),
    ],
    'cannot be verified',
  ],
  'a certificate that no log has': [
    async () => [
      await sigstore.sign(statementAbout(zip), jobWords(ci.issuer), { isCertificateLogged: false }),
    ],
    'cannot be verified',
  ],
  'another archive': [
    async () => [await signed({}, statementAbout(Buffer.from('other')))],
    'about another archive',
  ],
  'two archives': [
    async () => {
      const { subject, ...others } = statementAbout(zip)
      return [await signed({}, { ...others, subject: [...subject, ...subject] })]
    },
    'about another archive',
  ],
  'a statement of another version': [
    async () => [await signed({}, statementAbout(zip, { _type: 'https://in-toto.io/Statement/v0.1' }))],
    'in-toto statement',
  ],
  'a kind that is no URL': [
    async () => [await signed({}, statementAbout(zip, { predicateType: 'sbom' }))],
    'in-toto',
  ],
  'another issuer': [async () => [await signed({ 8: 'https://other.test' })], 'The claim iss differs'],
  'another project': [
    async () => [await signed({ 12: `${ci.issuer}/acme/other` })],
    'The claim repository differs: expected acme/lib, given acme/other.',
  ],
  'a project of another site': [
    async () => [await signed({ 12: 'https://other.test/acme/lib' })],
    'The claim repository differs',
  ],
  'another workflow': [
    async () => [await signed({ 18: `${ci.issuer}/acme/lib/.github/workflows/other.yml@refs/heads/main` })],
    'The claim workflow_ref differs',
  ],
  'a called workflow of a stranger': [
    async () => [await signed({ 9: `${ci.issuer}/bad/lib/.github/workflows/release.yml@refs/heads/main` })],
    'The claim job_workflow_ref differs',
  ],
  'a new project with the same name': [
    async () => [await signed({ 15: '18' })],
    'The claim repository_id differs',
  ],
  'a job for a pull request': [
    async () => [await signed({ 20: 'pull_request_target' })],
    'The claim event_name differs',
  ],
  'one good and one bad': [
    async () => [[await signed(), await signed({ 8: 'https://other.test' })]],
    'The claim iss differs',
  ],
}

describe('an upload is refused, and nothing is published,', () => {
  it.each(Object.entries(wrong))('with %s as attestation', async (_name, [make, reason]) => {
    const { upload, repository } = await aTrustedJob()
    const response = await upload(await make())
    expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
    expect(response.body).toContain(reason)
    expect(await eventsOf(t.db, { repositoryId: repository.id, action: 'publish' }, ['action'])).toEqual([])
  })

  it('with attestations of more than 64 KiB', async () => {
    const { upload, repository } = await aTrustedJob()
    const large = JSON.stringify({ text: 'x'.repeat(40_000) })
    for (const sent of [[large, large], [JSON.stringify('x'.repeat(70_000))]]) {
      const response = await upload(sent)
      expect([response.statusCode, response.json().errmsg]).toEqual([
        413,
        'attestations too large: more than 65536 bytes',
      ])
    }
    expect(await eventsOf(t.db, { repositoryId: repository.id, action: 'publish' }, ['action'])).toEqual([])
  })

  it('with a token that is not of a trusted publisher', async () => {
    const { repository, token } = await aPublisher(t)
    const deployToken = await aDeployToken(t.db, await groupOf(t.db, repository), { right: 'publish' })
    for (const other of [token, deployToken]) {
      const response = await uploadForm(t, repository, other, { zip, attestations: [await signed()] })
      expect([response.statusCode, response.json().errmsg]).toEqual([
        400,
        'attestations need a token of a trusted publisher',
      ])
    }
  })

  it('where the operator has set no trusted root, which the response names', async () => {
    const { repository, exchange } = await aTrustedRepository(untrusting, ci)
    const { access_token: token } = (await exchange(await ci.sign(jobClaims))).json()
    const response = await uploadForm(untrusting, repository, token, { zip, attestations: [await signed()] })
    expect([response.statusCode, response.json().errcode]).toEqual([400, 9])
    expect(response.json().warning).toContain('TRUSTED_ROOT_FILE')
    expect((await uploadForm(untrusting, repository, token, { zip, attestations: [] })).statusCode).toBe(201)
  })
})

describe('TRUSTED_ROOT_FILE', () => {
  const open = (path: string) =>
    openTrustedRoots(readConfig({ TRUSTED_ROOT_FILE: path }).trustedRootFile, (error) => {
      throw error
    })

  it('must have a trusted root, or the server does not start', async () => {
    expect(() => open('/nowhere/root.json')).toThrow(
      'TRUSTED_ROOT_FILE /nowhere/root.json cannot be read: ENOENT',
    )
    const { rootFile } = await aSigstore()
    for (const text of ['', '{}', '[]', 'null', '{"certificateAuthorities":[{}]}', 'root']) {
      writeFileSync(rootFile, text)
      expect(() => open(rootFile)).toThrow(`TRUSTED_ROOT_FILE ${rootFile}`)
    }
  })

  it('may have several trusted roots, one a line, and is read again when it has changed', async () => {
    const changing = await aSigstore()
    const roots = open(changing.rootFile)
    expect(roots?.()).toHaveLength(1)
    writeFileSync(
      changing.rootFile,
      [changing.root, stranger.root].map((root) => `${JSON.stringify(root)}\n`).join(''),
    )
    expect(roots?.()).toHaveLength(2)
  })
})

/** Returns a bundle with a change. */
function changed(bundle: TestBundle, change: (copy: TestBundle) => void): TestBundle {
  const copy = structuredClone(bundle)
  change(copy)
  return copy
}
