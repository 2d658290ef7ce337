import { describe, expect, it } from 'vitest'
import { aGroupMember, anAccount, aRepository, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { aPublisher } from '../../support/registry-actors.ts'

const t = useApp()

/** A member of the group of a repository, who can send lock files by form. */
async function aMemberOf(
  repository: Awaited<ReturnType<typeof aRepository>>,
  role: 'guest' | 'developer' | 'admin',
) {
  const account = await anAccount(t.db)
  await aGroupMember(t.db, account, repository.group, role)
  const cookie = await signIn(t.app, account)
  const open = (url: string) => t.app.inject({ url, headers: { cookie } })
  const url = `/${repository.group.name}/-/projects`
  async function sendLock(lock: string, fields: Record<string, string> = {}) {
    const csrf_token = csrfTokenIn(await open('/settings/account'))
    const parts = Object.entries({ csrf_token, project: 'shop', environment: 'production', ...fields }).map(
      ([name, value]) => `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
    )
    const file = `--b\r\ncontent-disposition: form-data; name="lock"; filename="composer.lock"\r\n\r\n${lock}\r\n--b--\r\n`
    return t.app.inject({
      method: 'POST',
      url: `${url}/new`,
      headers: { cookie, 'content-type': 'multipart/form-data; boundary=b' },
      payload: parts.join('') + file,
    })
  }
  const remove = async (project: string) =>
    post(t.app, `${url}/${project}/delete`, cookie, {
      csrf_token: csrfTokenIn(await open('/settings/account')),
    })
  return { account, cookie, open, url, sendLock, remove }
}

const lockOf = (version: string) => JSON.stringify({ packages: [{ name: 'acme/lib', version }] })

describe('/<group>/-/projects', () => {
  it('takes the lock file of a developer, and shows members who has a version', async () => {
    const repository = await aRepository(t.db)
    const publisher = await aPublisher(t, { repository })
    await publisher.push('1.0.0')
    const developer = await aMemberOf(repository, 'developer')
    expect((await developer.open(developer.url)).body).toContain('No project has sent a lock file yet.')
    const sent = await developer.sendLock(lockOf('1.0.0'), { commit: 'abc123' })
    expect(sent.headers['location']).toBe(`${developer.url}/shop`)
    expect((await developer.open(`${developer.url}/shop`)).body).toContain('abc123')
    const guest = await aMemberOf(repository, 'guest')
    const asked = (query: string) => guest.open(`${guest.url}?${new URLSearchParams(query)}`)
    expect((await asked('package=acme/lib&constraint=<2')).body).toContain(`${guest.url}/shop`)
    expect((await asked('package=acme/lib&constraint=>2')).body).toContain('Show all projects')
    const refused = await asked('package=acme/lib&constraint=nope!')
    expect([refused.statusCode, refused.body]).toEqual([
      400,
      expect.stringContaining('Constraint must be one'),
    ])
    const used = await guest.open(`/${repository.path}/packages/acme/lib/-/used-by`)
    expect(used.body).toContain(`${guest.url}/shop`)
    const sbom = await guest.open(`${guest.url}/shop/sbom?environment=production`)
    expect(sbom.json().components).toHaveLength(1)
    expect((await guest.open(`${guest.url}/new`)).statusCode).toBe(403)
    expect((await guest.sendLock(lockOf('1.0.0'))).statusCode).toBe(403)
    expect((await guest.remove('shop')).statusCode).toBe(403)
    const stranger = await aMemberOf(await aRepository(t.db), 'admin')
    expect((await stranger.open(`${guest.url}/shop`)).statusCode).toBe(404)
  })

  it('says what is wrong with a file, and keeps what was entered', async () => {
    const developer = await aMemberOf(await aRepository(t.db), 'developer')
    const broken = await developer.sendLock('{}', { commit: 'abc123' })
    expect(broken.statusCode).toBe(400)
    expect(broken.body).toContain('it has no list')
    expect(broken.body).toContain('value="abc123"')
    expect((await developer.sendLock('')).body).toContain('Choose the composer.lock of the project.')
    expect((await developer.sendLock(lockOf('1.0.0'), { project: 'no name' })).body).toContain(
      'The name of a project has 1 to 100 letters',
    )
  })

  it('lets admins delete a project', async () => {
    const admin = await aMemberOf(await aRepository(t.db), 'admin')
    await admin.sendLock(lockOf('1.0.0'))
    expect((await admin.open(`${admin.url}/shop/delete`)).body).toContain('Delete the project shop?')
    expect((await admin.remove('shop')).headers['location']).toBe(admin.url)
    expect((await admin.open(`${admin.url}/shop`)).statusCode).toBe(404)
    expect((await admin.remove('shop')).statusCode).toBe(404)
  })
})
