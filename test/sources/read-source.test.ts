import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { setOnlyTrustedPublishers } from '../../src/packages/lifecycle/trusted-only.ts'
import { rejectStage, releaseStage } from '../../src/packages/stages/release.ts'
import { type ListedStage, listStages } from '../../src/packages/tables/staged-versions.ts'
import { deleteFormerArchives } from '../../src/packages/tables/versions.ts'
import { aRepository } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import { packageFiles, sourcesHere, useGitServer } from '../support/git-server.ts'
import { recordPrograms } from '../support/recorded-programs.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { dropRows } from '../support/rows.ts'
import { aSource } from '../support/source-actors.ts'
import { endStageTime, setReleaseRule } from '../support/stage-rows.ts'
import { ageFormerArchives } from '../support/version-rows.ts'

const t = useApp(sourcesHere)
const server = useGitServer()

/** The path of the archive of an entry. */
const archiveOf = (entry: Record<string, unknown> = {}) =>
  new URL((entry['dist'] as { url: string }).url).pathname

const versionOf = (entry: Record<string, unknown> = {}) => String(entry['version'])

describe('reading a source', () => {
  it('publishes tags as versions and branches as development versions', async () => {
    const git = server.repository('first')
    const commit = git.commit(packageFiles('acme/first'), { tag: 'v1.0.0' })
    git.commit(packageFiles('acme/first', { description: 'New' }), { tag: 'release-1.1.0' })
    git.commit({ 'README.md': '# Branch' }, { branch: '1.x' })
    const source = await aSource(t, { url: git.url })
    await source.read()
    expect(await source.find()).toMatchObject({ failure: null, counts: { published: 4 } })
    const releases = await source.entries('acme/first')
    expect(releases.map(({ version }) => version)).toEqual(['1.1.0', '1.0.0'])
    expect(releases[1]).toMatchObject({
      name: 'acme/first',
      version_normalized: '1.0.0.0',
      source: { type: 'git', url: git.url, reference: commit },
    })
    const branches = await source.entries('acme/first', { isDev: true })
    expect(branches.map(versionOf).sort()).toEqual(['1.x-dev', 'dev-main'])
    expect(branches.find(({ version }) => version === 'dev-main')).toMatchObject({ 'default-branch': true })
    expect(branches.find(({ version }) => version === '1.x-dev')).not.toHaveProperty('default-branch')
  })

  it('fetches nothing for tags and branches that it knows', async () => {
    const git = server.repository('known')
    git.commit(packageFiles('acme/known'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url })
    await source.read()
    server.requests.length = 0
    await source.readAgain()
    expect(server.requests).toEqual(['GET /known.git/info/refs', 'POST /known.git/git-upload-pack'])
    git.commit({}, { tag: '1.1.0' })
    server.requests.length = 0
    await source.readAgain()
    expect(server.requests.length).toBeGreaterThan(2)
  })

  it('starts Git once for each new commit, besides once each to list, to fetch and to look at all of them', async () => {
    const git = server.repository('programs')
    for (let i = 0; i < 3; i += 1)
      git.commit({ ...packageFiles('acme/programs'), 'time.txt': String(i) }, { tag: `1.${i}.0` })
    git.git('tag', '--annotate', '--message', 'x', '2.0.0', '1.2.0')
    git.git('tag', '--annotate', '--message', 'A tag of a tag', '2.1.0', '2.0.0')
    const source = await aSource(t, { url: git.url, branches: '' })
    const recorded = recordPrograms('git')
    await source.read()
    expect(await source.find()).toMatchObject({ counts: { published: 5 } })
    const commands = recorded().flatMap(({ words }) => /--git-dir=\S+ (\S+)/.exec(words)?.[1] ?? [])
    const archives = Array.from({ length: 5 }, () => 'archive')
    expect(commands.toSorted()).toEqual([...archives, 'cat-file', 'fetch', 'ls-remote'])
  })

  it('names the source, the ref and the commit of a version, in the API and in its event', async () => {
    const git = server.repository('named')
    const commit = git.commit(packageFiles('acme/named'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, branches: '' })
    await source.read()
    const { call } = await aCaller(t, { repository: source.repository })
    expect((await call('GET', '/packages/acme/named/1.0.0')).json()).toMatchObject({
      uploader: null,
      published_by: { type: 'source', url: git.url, ref: 'refs/tags/1.0.0', commit },
    })
    const [event] = await eventsOf(t.db, { repositoryId: source.repository.id, action: 'publish' }, [
      'tokenKind',
      'tokenId',
      'details',
    ])
    expect(event).toMatchObject({ tokenKind: 'source', tokenId: source.id, details: { run: { commit } } })
    expect((await t.app.inject(`/${source.repository.path}/packages/acme/named`)).body).toContain(
      `Git: ${git.url}, 1.0.0, commit ${commit.slice(0, 7)}`,
    )
  })

  it('refuses a tag that was moved, and tells it once', async () => {
    const git = server.repository('moved')
    const first = git.commit(packageFiles('acme/moved'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, branches: '' })
    await source.read()
    const before = await source.entries('acme/moved')
    const second = git.commit({ 'src/Hello.php': '<?php // changed\n' }, { tag: '1.0.0' })
    await source.readAgain()
    await source.readAgain()
    expect(await source.entries('acme/moved')).toEqual(before)
    expect((await source.refs())['1.0.0']).toMatchObject({
      state: 'moved',
      commit: first,
      seenCommit: second,
    })
    const moved = { repositoryId: source.repository.id, action: 'refuse-tag' } as const
    const events = await eventsOf(t.db, moved, ['details'])
    expect(events.map(({ details }) => details)).toEqual([
      { source: Number(source.id), tag: '1.0.0', commit: second, published_commit: first },
    ])
    git.git('tag', '--force', '1.0.0', first)
    await source.readAgain()
    expect((await source.refs())['1.0.0']).toMatchObject({ state: 'published', reason: null })
    expect(await eventsOf(t.db, moved, ['id'])).toHaveLength(1)
  })

  it('offers the newest commit of a branch, and keeps former archives for lock files for 90 days', async () => {
    const git = server.repository('branch')
    git.commit(
      packageFiles('acme/branch', { extra: { 'branch-alias': { 'dev-main': '2.x-dev', bad: '1' } } }),
    )
    git.commit({ 'src/A.php': '<?php\n' }, { branch: 'feature/a' })
    git.git('checkout', '--quiet', 'main')
    const source = await aSource(t, { url: git.url })
    await source.read()
    const [before, other] = await source.entries('acme/branch', { isDev: true })
    expect([before, other].map(versionOf).sort()).toEqual(['dev-feature/a', 'dev-main'])
    const old = [before, other].find((entry) => entry?.['version'] === 'dev-main')
    expect(old).toMatchObject({ extra: { 'branch-alias': { 'dev-main': '2.x-dev' } } })
    const commit = git.commit({ 'src/B.php': '<?php\n' })
    await source.readAgain()
    const entries = await source.entries('acme/branch', { isDev: true })
    expect(entries).toHaveLength(2)
    const now = entries.find(({ version }) => version === 'dev-main')
    expect(now).toMatchObject({ name: 'acme/branch', source: { reference: commit } })
    const statusOf = async (entry: typeof old) => (await t.app.inject(archiveOf(entry))).statusCode
    expect(archiveOf(now)).not.toBe(archiveOf(old))
    for (const entry of [...entries, old]) expect(await statusOf(entry)).toBe(200)
    const page = `/${source.repository.path}/packages/acme/branch/-/download?version=dev-feature%2Fa`
    expect((await t.app.inject(page)).headers['content-disposition']).toBe(
      'attachment; filename="acme-branch-dev-feature-a.zip"',
    )
    await ageFormerArchives(t.db, 89)
    await deleteFormerArchives(t.db, 100)
    expect(await statusOf(old)).toBe(200)
    await ageFormerArchives(t.db, 91)
    await deleteFormerArchives(t.db, 100)
    expect(await statusOf(old)).toBe(404)
  })

  it('deletes the version of a branch that is gone, and brings it back with the branch', async () => {
    const git = server.repository('gone')
    git.commit(packageFiles('acme/gone'), { tag: '1.0.0' })
    git.commit({ 'a.txt': 'a' }, { branch: 'topic' })
    const source = await aSource(t, { url: git.url })
    await source.read()
    git.git('checkout', '--quiet', 'main')
    git.git('branch', '--quiet', '-D', 'topic')
    git.git('tag', '-d', '1.0.0')
    await source.readAgain()
    const names = async () => (await source.entries('acme/gone', { isDev: true })).map(versionOf).sort()
    expect(await names()).toEqual(['dev-main'])
    expect(await source.refs()).toMatchObject({ topic: { state: 'gone' }, '1.0.0': { state: 'gone' } })
    expect(await source.entries('acme/gone')).toHaveLength(1)
    git.commit({ 'b.txt': 'b' }, { branch: 'topic' })
    await source.readAgain()
    expect(await names()).toEqual(['dev-main', 'dev-topic'])
    expect((await source.refs())['topic']).toMatchObject({ state: 'published' })
  })

  it('marks another branch as the default one after it has changed', async () => {
    const git = server.repository('default')
    git.commit(packageFiles('acme/default'))
    git.commit({ 'a.txt': 'a' }, { branch: 'next' })
    const source = await aSource(t, { url: git.url })
    await source.read()
    git.git('--git-dir', git.path, 'symbolic-ref', 'HEAD', 'refs/heads/next')
    await source.readAgain()
    const entries = await source.entries('acme/default', { isDev: true })
    expect(entries.filter((entry) => entry['default-branch']).map(({ version }) => version)).toEqual([
      'dev-next',
    ])
  })

  it('keeps the older versions of a renamed package under its older name, and publishes what it replaces', async () => {
    const git = server.repository('renamed')
    git.commit(packageFiles('acme/former'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, branches: '' })
    await source.read()
    const before = await source.entries('acme/former')
    git.commit(packageFiles('acme/renamed', { replace: { 'acme/former': 'self.version', old: '*' } }), {
      tag: '2.0.0',
    })
    await source.readAgain()
    expect(before).toMatchObject([{ name: 'acme/former', version: '1.0.0' }])
    expect(await source.entries('acme/former')).toEqual(before)
    const [entry] = await source.entries('acme/renamed')
    expect(entry).toMatchObject({ version: '2.0.0', replace: { 'acme/former': 'self.version' } })
    expect((await source.refs())['2.0.0']?.warnings).toEqual([
      'replace.old is left out: the name of a package is vendor/package',
    ])
  })

  it('lists what is no version, with the reason, and publishes the others', async () => {
    const git = server.repository('odd')
    git.commit({ 'README.md': 'no manifest' }, { tag: '0.1.0' })
    git.commit(packageFiles('odd'), { tag: '0.1.1' })
    git.commit(packageFiles('acme/odd', { version: '3.0.0' }), { tag: '0.2.0' })
    git.commit(packageFiles('acme/odd', { version: '0.3.0' }), { tag: '0.3.0' })
    git.commit(packageFiles('acme/odd'))
    git.commit({ 'large.bin': lfsPointer }, { tag: '0.4.0' })
    git.commit({ '.gitattributes': 'large.bin export-ignore\n' }, { tag: '0.5.0' })
    git.commit(packageFiles('acme/odd'), { tag: 'nightly' })
    for (const tag of ['v1.0', '1.1.0RC1', '1.2.3.4']) git.git('tag', tag)
    git.git('tag', 'of-a-file', 'HEAD:composer.json')
    git.git('tag', '9.0.0', 'HEAD:composer.json')
    git.git('branch', 'töpic')
    const source = await aSource(t, { url: git.url })
    await source.read()
    const refs = await source.refs()
    const reasons = Object.fromEntries(Object.entries(refs).map(([name, { reason }]) => [name, reason]))
    expect(reasons).toMatchObject({
      '0.1.0': expect.stringContaining('invalid archive: composer.json is missing'),
      '0.1.1': 'composer.json: name must be the name of a package, such as acme/lib, not "odd"',
      '0.2.0': expect.stringContaining('composer.json: version must be "0.2.0" or absent, not "3.0.0"'),
      '0.3.0': null,
      '0.4.0': expect.stringContaining(
        'large.bin is a pointer of Git LFS. Archives have no files of Git LFS',
      ),
      '0.5.0': null,
      nightly: 'its name is no version such as 1.0.0',
      'of-a-file': 'its name is no version such as 1.0.0',
      '9.0.0': 'it is no commit',
      'v1.0': 'its name is no Semantic Version: tag the commit as 1.0.0, too',
      '1.1.0RC1': 'its name is no Semantic Version: tag the commit as 1.1.0-RC1, too',
      '1.2.3.4': 'its name is no version such as 1.0.0',
      töpic: 'its name cannot be part of a version',
      main: null,
    })
    expect(refs['nightly']).toMatchObject({ state: 'skipped' })
    expect(refs['0.2.0']).toMatchObject({ state: 'refused' })
    expect((await source.entries('acme/odd')).map(({ version }) => version)).toEqual(['0.5.0', '0.3.0'])
  })

  it('warns about submodules, but not about those that export-ignore excludes', async () => {
    const git = server.repository('submodule')
    const commit = git.commit({
      ...packageFiles('acme/submodule'),
      '.gitattributes': 'docs/* export-ignore\ntests/module export-ignore\n',
      'docs/index.md': '# Docs',
    })
    for (const entry of [
      `${commit},third/other`,
      `${'2'.repeat(40)},third/a b "c"`,
      `${'2'.repeat(40)},docs/theme`,
      `${'2'.repeat(40)},tests/module`,
    ])
      git.git('update-index', '--add', '--cacheinfo', `160000,${entry}`)
    git.git('commit', '--quiet', '--message', 'A submodule')
    git.git('tag', '1.0.0')
    const source = await aSource(t, { url: git.url, branches: '' })
    await source.read()
    expect((await source.refs())['1.0.0']).toMatchObject({
      state: 'published',
      warnings: [
        'the submodule third/a b "c" is not in the archive',
        'the submodule third/other is not in the archive',
        expect.stringContaining('cannot be unpacked on Windows'),
      ],
    })
  })

  it('reads the packages of folders, and makes no new archive for a folder without changes', async () => {
    const git = server.repository('mono')
    const folder = (name: string) =>
      Object.fromEntries(
        Object.entries(packageFiles(`acme/${name}`)).map(([path, text]) => [
          `packages/${name}/${path}`,
          text,
        ]),
      )
    git.commit({ ...folder('one'), ...folder('two') }, { tag: '1.0.0' })
    const one = await aSource(t, { url: git.url, path: 'packages/one' })
    const two = await aSource(t, { url: git.url, path: 'packages/two' }, { place: one.repository })
    const missing = await aSource(t, { url: git.url, path: 'packages/three' }, { place: one.repository })
    await one.read()
    expect(await one.entries('acme/one')).toHaveLength(1)
    expect(await two.entries('acme/two')).toHaveLength(1)
    expect((await missing.refs())['1.0.0']).toMatchObject({ reason: 'there is no folder packages/three' })
    const before = await two.entries('acme/two', { isDev: true })
    git.commit({ 'packages/one/src/New.php': '<?php\n' })
    await one.readAgain()
    await two.readAgain()
    expect(await two.entries('acme/two', { isDev: true })).toEqual(before)
    expect(archiveOf((await one.entries('acme/one', { isDev: true }))[0])).not.toBe(archiveOf(before[0]))
  })

  it('publishes no package of another source', async () => {
    const mine = server.repository('mine')
    mine.commit(packageFiles('acme/shared'), { tag: '1.0.0' })
    const other = server.repository('other')
    other.commit(packageFiles('acme/shared'), { tag: '2.0.0' })
    const source = await aSource(t, { url: mine.url })
    await source.read()
    const second = await aSource(t, { url: other.url }, { place: source.repository })
    await second.read()
    expect((await second.refs())['2.0.0']).toMatchObject({
      state: 'refused',
      reason: expect.stringContaining('another source publishes acme/shared'),
    })
    expect(await source.entries('acme/shared')).toHaveLength(1)
  })

  it('publishes nothing where only trusted publishers publish', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('0.9.0')
    const { repository } = publisher
    const change = {
      repositoryId: repository.id,
      packageName: 'acme/lib',
      by: operator,
      baseUrl: 'http://svc.test',
    }
    await setOnlyTrustedPublishers(t.db, change, true)
    const git = server.repository('trusted')
    git.commit(packageFiles('acme/lib'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url }, { place: repository })
    await source.read()
    expect((await source.refs())['1.0.0']).toMatchObject({
      state: 'refused',
      reason: expect.stringContaining('only trusted publishers publish acme/lib'),
    })
  })

  it('stages versions where releases are reviewed, and replaces the stage of a branch', async () => {
    const repository = await aRepository(t.db, { visibility: 'public' })
    await setReleaseRule(t, repository)
    const git = server.repository('reviewed')
    git.commit(packageFiles('acme/reviewed'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url }, { place: repository })
    await source.read()
    git.commit({ 'a.txt': 'a' })
    await source.readAgain()
    expect(await source.entries('acme/reviewed')).toEqual([])
    expect(await source.refs()).toMatchObject({ '1.0.0': { state: 'staged' }, main: { state: 'staged' } })
    const { call } = await aCaller(t, { repository })
    const stages = (await call('GET', '/stages')).json() as { version: string; status: string }[]
    expect(stages.map(({ version, status }) => `${version} ${status}`)).toEqual([
      'dev-main staged',
      'dev-main expired',
      '1.0.0 staged',
    ])
  })

  it('shows what the review of a staged version has decided', async () => {
    const repository = await aRepository(t.db, { visibility: 'public' })
    await setReleaseRule(t, repository)
    const git = server.repository('decided')
    git.commit(packageFiles('acme/decided'), { tag: '1.0.0' })
    for (const tag of ['1.1.0', '1.2.0']) git.commit({ 'tag.txt': tag }, { tag })
    const source = await aSource(t, { url: git.url, branches: '' }, { place: repository })
    await source.read()
    const stages = await listStages(t.db, repository.id, { after: null, limit: 3 })
    const decision = (version: string) => {
      const stage = stages.find((one) => one.version === version) as ListedStage
      return { stage, by: operator, baseUrl: t.config.baseUrl }
    }
    await releaseStage(t.db, decision('1.0.0'))
    await rejectStage(t.db, { ...decision('1.1.0'), reason: 'It has no tests.' })
    await endStageTime(t.db, decision('1.2.0').stage.id)
    const states = async () => {
      const refs = Object.values(await source.refs())
      return Object.fromEntries(refs.map(({ name, state, reason }) => [name, [state, reason]]))
    }
    expect(await states()).toEqual({
      '1.0.0': ['published', null],
      '1.1.0': ['refused', 'a reviewer rejected it'],
      '1.2.0': ['refused', 'nobody released it in time'],
    })
    expect((await source.find())?.counts).toEqual({ published: 1, refused: 2 })
    // What was rejected stays rejected until its tag is moved.
    await source.readAgain()
    expect(await states()).toMatchObject({
      '1.1.0': ['refused', 'a reviewer rejected it'],
      '1.2.0': ['staged', null],
    })
    git.commit({ 'tests.php': '<?php\n' }, { tag: '1.1.0' })
    await source.readAgain()
    expect(await states()).toMatchObject({ '1.0.0': ['published', null], '1.1.0': ['staged', null] })
    await dropRows(t.db, 'staged_version')
    expect(await states()).toMatchObject({
      '1.0.0': ['published', null],
      '1.1.0': ['refused', 'it was not released'],
    })
  })

  it('names no Git repository in the metadata of a source that hides it', async () => {
    const git = server.repository('hidden')
    git.commit(packageFiles('acme/hidden'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, hidesSource: true })
    await source.read()
    const [entry] = await source.entries('acme/hidden')
    expect(entry).toHaveProperty('dist')
    expect(entry).not.toHaveProperty('source')
  })

  it('takes the version of the same commit for its own, after a source was removed and added again', async () => {
    const git = server.repository('again')
    git.commit(packageFiles('acme/again'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, path: '' })
    await source.read()
    const { call } = await aCaller(t, { repository: source.repository })
    expect((await call('DELETE', `/sources/${source.id}`)).statusCode).toBe(204)
    expect(await source.entries('acme/again')).toHaveLength(1)
    const second = await aSource(t, { url: git.url }, { place: source.repository })
    await second.read()
    expect((await second.refs())['1.0.0']).toMatchObject({ state: 'published' })
  })
})

const lfsPointer = `version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 12345
`
