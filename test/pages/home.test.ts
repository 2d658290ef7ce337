import { describe, expect, it } from 'vitest'
import { aGroup, aGroupMember, aMember, anAccount, aRepository, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'

describe('GET /', () => {
  const t = useApp()

  it('offers to sign in', async () => {
    const answer = await t.app.inject('/')
    expect(answer.statusCode).toBe(200)
    expect(answer.body).toContain('href="/login"')
    expect(answer.cookies).toEqual([])
  })

  it("lists the account's repositories, through their group too, and no others", async () => {
    const account = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'guest')
    const ofGroup = await aRepository(t.db, { group, description: 'Ours & <theirs>' })
    const own = await aRepository(t.db)
    await aMember(t.db, account, own, 'admin')
    const foreign = await aRepository(t.db, { visibility: 'public' })
    const cookie = await signIn(t.app, account)
    const { body } = await t.app.inject({ url: '/', headers: { cookie } })
    expect(body).toContain(`href="/${ofGroup.path}"`)
    expect(body).toContain('Ours &amp; &lt;theirs&gt;')
    expect(body).toContain(`href="/${own.path}"`)
    expect(body).not.toContain(foreign.path)
  })

  it('shows 50 repositories at once, leads to the next ones, and searches all', async () => {
    const account = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'guest')
    await t.db.query(
      `insert into repository (group_id, name, description)
       select $1, 'repo' || to_char(i, 'fm000'), 'Number ' || i from generate_series(1, 120) i`,
      [group.id],
    )
    const cookie = await signIn(t.app, account)
    const open = async (url: string) => {
      const { body } = await t.app.inject({ url, headers: { cookie } })
      const paths = Array.from(body.matchAll(/class="title"><a href="\/([^"]+)"/g), ([, path]) => path)
      const next = /<a href="([^"]+)">More repositories/.exec(body)?.[1]?.replaceAll('&amp;', '&')
      return { paths, next, body }
    }
    const names: (string | undefined)[] = []
    const sizes: number[] = []
    for (let url: string | undefined = '/'; url !== undefined; ) {
      const { paths, next } = await open(url)
      names.push(...paths)
      sizes.push(paths.length)
      url = next
    }
    expect(sizes).toEqual([50, 50, 20])
    expect(names).toEqual(names.toSorted((a, b) => String(a).localeCompare(String(b))))
    expect(new Set(names).size).toBe(120)
    expect((await open('/?q=NUMBER+77')).paths).toEqual([`${group.name}/repo077`])
    expect((await open('/?q=repo&after=')).next).toContain('q=repo')
    expect((await open('/?q=nothing')).body).toContain('No repository of yours was found')
    expect((await open(`/?after=${group.name}/repo999`)).body).toContain('Show all')
  })
})
