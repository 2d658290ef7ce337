import { describe, expect, it } from 'vitest'
import { aGroup, aGroupMember, aMember, aName, anAccount, aRepository, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { requireSecondFactor } from '../../support/group-rows.ts'
import { aMirroredArchive, aMirroredPackage, markMirroredPackage } from '../../support/mirrored-rows.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { anUpstream, markRemoved, setRules } from '../../support/upstream-rows.ts'

const t = useApp()

/** Returns the part of a result page with packages from upstreams. Empty if it has none. */
async function findMirrors(search: string, cookie = ''): Promise<string> {
  const { body } = await t.app.inject({ url: `/search?q=${encodeURIComponent(search)}`, headers: { cookie } })
  const [, part = ''] = body.split('<h2>Packages from upstreams</h2>')
  return part.split('<h2>')[0] ?? ''
}

/** A repository with an upstream and one mirrored package. */
async function aMirror(about: Parameters<typeof aRepository>[1] = {}) {
  const repository = await aRepository(t.db, about)
  const name = `${aName('vendor')}/log`
  const upstreamId = await anUpstream(t.db, repository, {
    name: 'packagist',
    url: 'https://repo.example.com',
  })
  const seen = { upstreamId, isSeen: true, description: 'Writes <logs>' }
  await aMirroredPackage(t.db, repository, name, seen)
  return {
    repository,
    name,
    upstreamId,
    link: `/${repository.path}/packages/${name}`,
  }
}

it('a list shows the start of a long description, and the page of the package shows all of it', async () => {
  const { account, repository, push } = await aPublisher(t)
  const description = `Long ${'description '.repeat(4000).trim()}`
  expect((await push('1.0.0', { name: 'acme/long', manifest: { description } })).statusCode).toBe(201)
  const cookie = await signIn(t.app, account)
  const look = async (url: string) => (await t.app.inject({ url, headers: { cookie } })).body
  for (const url of [`/${repository.path}`, '/search?q=acme/long']) {
    const body = await look(url)
    expect(body).toMatch(/<p class="muted">Long description[a-z ]+ description…<\/p>/)
    expect(body).not.toContain('description '.repeat(30))
  }
  expect(await look(`/${repository.path}/packages/acme/long`)).toContain(description)
})

describe('GET /search among thousands of packages', () => {
  it('finds long names and texts in every repository that one may see, and in no other', async () => {
    const [open, hidden] = [await aPublisher(t, { visibility: 'public' }), await aPublisher(t)]
    for (const { push, repository } of [open, hidden]) {
      await push('1.0.0')
      await t.db.query(
        `insert into package (repository_id, name, description)
         select $1, 'vendor' || i || '/' || case i when 2100 then 'zq-rarely-' else '' end || repeat('x', 1 + i / 100),
                case i when 2200 then 'Übersetzt 日志' else 'A text' end
           from generate_series(1, 2300) i`,
        [repository.id],
      )
      await t.db.query(
        `insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256)
         select p.id, v.version, v.composer, v.normalized, v.is_dev, v.sort_key, v.metadata, v.sha256
           from package p
          cross join (select v.* from package_version v join package o on o.id = v.package_id
                       where o.repository_id = $1 limit 1) v
          where p.repository_id = $1 and p.name like 'vendor%'`,
        [repository.id],
      )
    }
    const find = async (search: string, cookie: string) => {
      const { body } = await t.app.inject({
        url: `/search?q=${encodeURIComponent(search)}`,
        headers: { cookie },
      })
      const links = [...body.matchAll(/href="\/([^"]+)\/packages\/(vendor\d+)\//g)]
      return links.map(([, path, vendor]) => `${path} ${vendor}`).toSorted()
    }
    const both = (vendor: string) =>
      [open, hidden].map(({ repository }) => `${repository.path} ${vendor}`).toSorted()
    const [member, admin] = [
      await signIn(t.app, hidden.account),
      await signIn(t.app, await anAccount(t.db, { isAdmin: true })),
    ]
    for (const [search, vendor] of [
      ['rarely', 'vendor2100'],
      ['ZQ', 'vendor2100'],
      ['übersetzt', 'vendor2200'],
      ['日志', 'vendor2200'],
    ] as const) {
      expect([search, await find(search, '')]).toEqual([search, [`${open.repository.path} ${vendor}`]])
      expect([search, await find(search, member)]).toEqual([search, both(vendor)])
      expect([search, await find(search, admin)]).toEqual([search, both(vendor)])
    }
  })
})

describe('GET /search for a package from an upstream', () => {
  it('lists it to members of the repository, of its group, and to site administrators, and to nobody else', async () => {
    const { repository, name, link } = await aMirror()
    const [member, groupMember, stranger] = [
      await anAccount(t.db),
      await anAccount(t.db),
      await anAccount(t.db),
    ]
    await aMember(t.db, member, repository, 'guest')
    await aGroupMember(t.db, groupMember, repository.group, 'guest')
    // A member of another repository with an upstream.
    await aMember(t.db, stranger, (await aMirror()).repository, 'admin')
    // A member of another repository of the same group.
    const neighbor = await anAccount(t.db)
    await aMember(t.db, neighbor, (await aMirror({ group: repository.group })).repository, 'admin')
    const admin = await anAccount(t.db, { isAdmin: true })
    for (const account of [member, groupMember, admin]) {
      const found = await findMirrors(name, await signIn(t.app, account))
      expect(found).toContain(`href="${link}"`)
      expect(found).toContain('mirrored from packagist')
      expect(found).toContain('Writes &lt;logs&gt;')
    }
    for (const cookie of ['', await signIn(t.app, stranger), await signIn(t.app, neighbor)]) {
      expect(await findMirrors(name, cookie)).toBe('')
      // Neither a part of the name nor another text finds it.
      expect(await findMirrors('vendor', cookie)).not.toContain(name)
    }
  })

  it('does not list it to a member of a group without the second factor that the group requires', async () => {
    const { repository, name, link } = await aMirror()
    const account = await anAccount(t.db)
    await aGroupMember(t.db, account, repository.group, 'admin')
    const cookie = await signIn(t.app, account)
    expect(await findMirrors(name, cookie)).toContain(`href="${link}"`)
    await requireSecondFactor(t.db, repository.group)
    expect(await findMirrors(name, cookie)).toBe('')
  })

  it('lists it to everybody if the repository is public', async () => {
    const { name, link } = await aMirror({ visibility: 'public' })
    expect(await findMirrors(name)).toContain(`href="${link}"`)
  })

  it('finds a part of the name in any case, the equal name first', async () => {
    const { repository, name, upstreamId } = await aMirror({ visibility: 'public' })
    await aMirroredPackage(t.db, repository, [`a${name}`, `a${name}-more`], { upstreamId })
    const found = await findMirrors(name.toUpperCase())
    const titles = [...found.matchAll(/<h3 class="title">(?:<img [^>]*>)?<a [^>]*>([^<]+)</g)].map(
      ([, title]) => title,
    )
    expect(titles).toEqual([name, `a${name}`, `a${name}-more`])
  })

  it('shows why a package cannot be installed', async () => {
    const { repository, name, upstreamId } = await aMirror({
      group: await aGroup(t.db),
      visibility: 'public',
    })
    const badges = async () =>
      [...(await findMirrors(name)).matchAll(/<span class="badge[^>]*>([^<]+)</g)].map(([, badge]) => badge)
    expect(await badges()).toEqual([])
    await setRules(t.db, repository, { mode: 'approved' })
    expect(await badges()).toEqual(['not approved'])
    await markMirroredPackage(t.db, name, { isRequested: true })
    expect(await badges()).toEqual(['waits for approval'])
    // The page of the repository agrees.
    const { body } = await t.app.inject(`/${repository.path}`)
    expect(body.slice(body.indexOf('id="mirrored"'))).toContain('waits for approval')
    await markMirroredPackage(t.db, name, { approvedAt: new Date(), isGone: true })
    await aMirroredArchive(t.db, name, { alarm: 'other bytes' })
    await markRemoved(t.db, { id: upstreamId })
    expect(await badges()).toEqual([
      'changed archive',
      'gone from the upstream',
      'upstream removed',
      'approved',
    ])
  })
})
