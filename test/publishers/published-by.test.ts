import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { partsOfRun } from '../../src/domain/publisher.ts'
import { releaseStage } from '../../src/packages/stages/release.ts'
import { findStage } from '../../src/packages/tables/staged-versions.ts'
import { aRepository } from '../support/actors.ts'
import { aCaller, callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { issuersHere, useCiIssuer } from '../support/ci-issuer.ts'
import { eventsOf } from '../support/event-rows.ts'
import { aTrustedRepository, jobClaims, pushWith } from '../support/publisher-actors.ts'
import { aPublisher } from '../support/registry-actors.ts'

const t = useApp(issuersHere)
const ci = useCiIssuer()
const job = { ...jobClaims, ref: 'refs/tags/v1.0.0', sha: '9fceb02d0ae598e95dc970b74767f19372d61af8' }

/** A version that a CI job has uploaded to a public repository: published, or staged. */
async function anUpload({ to = 'upload' }: { to?: string } = {}) {
  const place = await aRepository(t.db, { visibility: 'public' })
  const { repository, exchange } = await aTrustedRepository(t, ci, {}, place)
  const { access_token: token } = (await exchange(await ci.sign(job))).json()
  const uploaded = await pushWith(t, repository, token, { to })
  const publisher = {
    provider: 'github',
    project: 'acme/lib',
    workflow: 'release.yml',
    ref: 'refs/tags/v1.0.0',
    commit: job.sha,
  }
  const url = `${ci.issuer}/acme/lib/actions/runs/99`
  const open = async (path: string) => (await t.app.inject(`/${repository.path}${path}`)).body
  const { call } = await aCaller(t, { repository })
  const version = async () => (await call('GET', '/packages/acme/lib/1.0.0')).json()
  return { repository, uploaded, publisher, url, open, version }
}

describe('a version of a trusted publisher', () => {
  it('names project, workflow, ref, commit and run in the API, the page, the event and the feed', async () => {
    const { repository, publisher, url, open, version } = await anUpload()
    expect(await version()).toMatchObject({
      uploader: null,
      published_by: { type: 'publisher', ...publisher, run_url: url },
    })
    const page = await open('/packages/acme/lib')
    expect(page).toContain(
      `>GitHub Actions: acme/lib</a>, release.yml, v1.0.0, <a href="${ci.issuer}/acme/lib/commit/`,
    )
    expect(page).toContain('>commit 9fceb02</a>')
    expect(page).toContain(`<a href="${url}" rel="noopener noreferrer">run</a>`)
    expect(await open('/packages/acme/lib/-/versions')).toContain(`<a href="${url}"`)
    const [event] = await eventsOf(t.db, { repositoryId: repository.id, action: 'publish' }, ['details'])
    expect(event?.details).toMatchObject({ run: { ...publisher, url } })
    for (const feed of ['/-/feed.atom', '/packages/acme/lib/-/feed.atom']) {
      expect(await open(feed)).toContain(
        `<name>GitHub Actions: acme/lib, release.yml, v1.0.0, commit 9fceb02</name><uri>${url}</uri>`,
      )
    }
  })

  it('is the one of the job that staged it, whoever releases it', async () => {
    const { uploaded, repository, publisher, version } = await anUpload({ to: 'stage' })
    const stage = await findStage(t.db, uploaded.json().id)
    if (!stage) throw new Error('nothing is staged')
    const { account, token } = await aPublisher(t, { repository })
    const url = `/api/repositories/${repository.path}/stages/${stage.id}`
    const { staged_by } = (await callApi(t, token, 'GET', url)).json()
    await releaseStage(t.db, {
      stage,
      by: { ...operator, accountId: account.id },
      baseUrl: 'http://svc.test',
    })
    expect((await version()).published_by).toMatchObject({ type: 'publisher', ...publisher })
    expect((await version()).published_by).toEqual(staged_by)
    const events = await eventsOf(t.db, { repositoryId: repository.id }, ['action', 'actorId', 'details'])
    expect(events).toContainEqual(expect.objectContaining({ action: 'release-stage', actorId: account.id }))
    expect(events).toContainEqual(
      expect.objectContaining({
        action: 'publish',
        details: expect.objectContaining({ run: expect.objectContaining({ commit: job.sha }) }),
      }),
    )
  })
})

describe('partsOfRun', () => {
  const run = { project: 'acme/lib', workflow: '.gitlab-ci.yml', ref: 'refs/heads/main', commit: job.sha }

  it('links project, commit and run, as GitLab and the others do', () => {
    const url = 'https://gitlab.com/acme/lib/-/pipelines/7'
    expect(partsOfRun({ ...run, provider: 'gitlab', url })).toEqual([
      { text: 'GitLab CI: acme/lib', url: 'https://gitlab.com/acme/lib' },
      { text: '.gitlab-ci.yml', url: null },
      { text: 'main', url: null },
      { text: 'commit 9fceb02', url: `https://gitlab.com/acme/lib/-/commit/${job.sha}` },
      { text: 'run', url },
    ])
  })

  it('leaves out what the issuer does not say, and links nothing without a run', () => {
    const unknown = { project: null, workflow: null, ref: null, commit: null, url: null }
    expect(partsOfRun({ ...unknown, provider: 'claims' })).toEqual([{ text: 'CI', url: null }])
    expect(partsOfRun({ ...unknown, provider: 'claims', commit: 'r17' })[1]).toEqual({
      text: 'commit r17',
      url: null,
    })
  })
})
