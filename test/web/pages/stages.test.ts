import { describe, expect, it } from 'vitest'
import {
  aDeployToken,
  aMember,
  anAccount,
  cookiesOf,
  csrfTokenIn,
  groupOf,
  post,
  signIn,
} from '../../support/actors.ts'
import { callApi } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { codeOf, continuedUrlIn, enrol, forgetCodes, halfSignIn } from '../../support/factor-actors.ts'
import { aPublisher, basic, expand } from '../../support/registry-actors.ts'
import { setProofAges } from '../../support/session-rows.ts'
import { endStageTime, setReleaseRule } from '../../support/stage-rows.ts'
import { aZip } from '../../support/zip.ts'

const t = useApp({ BASE_URL: 'http://localhost' })

/** A browser of a new account with this role in the repository. `secret` is that of its app, if it has one. */
async function aReviewer(repository: { id: string }, { role = 'developer', hasFactor = true } = {}) {
  const account = await anAccount(t.db)
  await aMember(t.db, account, repository, role as 'developer')
  const cookie = await signIn(t.app, account)
  const person = hasFactor ? await enrol(t, account, cookie) : null
  const secret = person?.secret ?? ''
  const read = (url: string) => t.app.inject({ url, headers: { cookie } })
  const csrf_token = csrfTokenIn(await read('/settings/account'))
  const send = (url: string, form: Record<string, string> = {}) =>
    post(t.app, url, cookie, { csrf_token, ...form })
  /** Sends a form that asks for a second factor, and the code, and then the form that waited. */
  async function sendWithCode(url: string, form: Record<string, string> = {}) {
    await setProofAges(t.db, '6 minutes')
    const asked = await send(url, form)
    const confirm = new URL(String(asked.headers.location), 'http://localhost')
    const { searchParams } = confirm
    const code = codeOf(secret)
    const fields = { return: searchParams.get('return') ?? '', form: 'held', need: 'factor', code }
    const confirmed = await send('/settings/confirm-access', fields)
    await forgetCodes(t, account)
    const waiting = await read(String(confirmed.headers.location))
    return { asked: confirm, response: await send(continuedUrlIn(waiting)) }
  }
  return { account, person, read, send, sendWithCode }
}

async function aStage() {
  const publisher = await aPublisher(t)
  await publisher.push('1.0.0', { manifest: { require: { 'acme/old': '^1.0' } } })
  const manifest = {
    type: 'composer-plugin',
    require: { 'composer-plugin-api': '^2.0' },
    extra: { class: 'Acme\\Lib' },
    scripts: { 'post-install-cmd': 'evil' },
    bin: ['src/Lib.php'],
    keywords: ['x'],
  }
  const { id } = (await publisher.stage('1.1.0', { manifest })).json() as { id: string }
  return { ...publisher, id, url: `/${publisher.repository.path}/-/stages/${id}` }
}

describe('/<group>/<name>/-/stages/<id>', () => {
  it('shows what changes, first what can run code and its binaries, and who staged it', async () => {
    const { repository, account, url } = await aStage()
    const { read } = await aReviewer(repository)
    const body = (await read(url)).body.replaceAll('<wbr>', '')
    const order = [
      'src/Lib.php',
      'post-install-cmd',
      '&quot;composer-plugin&quot;',
      'acme/old',
      'keywords',
      'class="changed-file"',
    ]
    const places = order.map((text) => body.indexOf(text))
    expect(places).not.toContain(-1)
    expect(places).toEqual(places.toSorted((a, b) => a - b))
    expect(body).toMatch(new RegExp(`by\\s+${account.username}`))
    const list = await read(`/${repository.path}/-/stages`)
    expect(list.body).toContain('acme/lib 1.1.0')
    expect((await read('/')).body).toContain(`1 staged version of ${repository.path} waits for release`)
  })

  it('shows the lines of the first version of a package, first of its binaries and the other files that run by themselves', async () => {
    const { repository, stage } = await aPublisher(t)
    const { read } = await aReviewer(repository)
    const manifest = {
      name: 'acme/lib',
      type: 'composer-plugin',
      autoload: { 'psr-4': { 'Acme\\': 'src/' }, files: ['zz/boot.php'] },
      extra: { class: 'Acme\\Deep\\Plugin' },
      require: { 'composer-plugin-api': '^2.0' },
      scripts: { 'post-install-cmd': ['Acme\\Hook::run', '@php x'] },
      bin: 'bin/tool',
    }
    const others = Array.from({ length: 200 }, (_, i) => [`aa/File${i}.php`, `<?php // file ${i}`])
    const payload = aZip({
      'composer.json': JSON.stringify(manifest),
      ...Object.fromEntries(others),
      'bin/tool': '#!/usr/bin/env php\nthe binary\n',
      'src/Deep/Plugin.php': '<?php // the plugin',
      'src/Hook.php': '<?php // the hook',
      'zz/boot.php': '<?php // the boot',
      'zz/data.bin': '\0',
    })
    const staged = await stage('1.0.0', { payload })
    expect(staged.body).toContain('"staged"')
    const url = `/${repository.path}/-/stages/${staged.json().id}`
    const { body } = await read(url)
    expect(body).toContain('This is the first version of the package.')
    expect(body).toContain('206 files')
    const order = ['the binary', 'the hook', 'the boot', 'the plugin', '// file ']
    const places = order.map((text) => body.indexOf(text))
    expect(places).not.toContain(-1)
    expect(places).toEqual(places.toSorted((a, b) => a - b))
    expect(body.length).toBeLessThan(100_000)
    expect((await read(`${url}?path=aa/File199.php`)).body).toContain('// file 199')
    expect((await read(`${url}?path=zz/data.bin`)).body).toContain('This file is not text.')
    expect((await read(`${url}?path=none.php`)).statusCode).toBe(404)
  })

  it('is named on the page of the package and in its versions, for people who may release it', async () => {
    const { repository, account, stage, id, url } = await aStage()
    await stage('1.2.0-beta.1')
    const home = `/${repository.path}/packages/acme/lib`
    const reviewer = await aReviewer(repository, { hasFactor: false })
    const guest = await aReviewer(repository, { role: 'guest', hasFactor: false })
    const waits = new RegExp(
      `href="${url}">1\\.1\\.0</a> waits for its release, staged by\\s+${account.username}`,
    )
    for (const page of [home, `${home}?version=1.0.0`, `${home}/-/versions`]) {
      const { body } = await reviewer.read(page)
      expect(body).toMatch(waits)
      expect(body).toContain('>1.2.0-beta.1</a> waits for its release')
      expect((await guest.read(page)).body).not.toContain('waits for its release')
    }
    const number = await reviewer.read(`${home}?version=1.1.0`)
    expect([number.statusCode, number.body.includes(`href="${url}">Review 1.1.0`)]).toEqual([404, true])
    expect(number.body).not.toContain('Only members see private pages')
    expect((await guest.read(`${home}?version=1.1.0`)).body).not.toContain('1.1.0')
    await endStageTime(t.db, id)
    expect((await reviewer.read(home)).body).not.toContain('1.1.0')
  })

  it('is for people who may push', async () => {
    const { repository, url } = await aStage()
    const guest = await aReviewer(repository, { role: 'guest', hasFactor: false })
    expect((await guest.read(url)).statusCode).toBe(403)
    expect((await guest.send(`${url}/release`)).statusCode).toBe(403)
  })

  it('releases the version with a code of the last five minutes, and keeps the form meanwhile', async () => {
    const { repository, ask, url } = await aStage()
    const { read, sendWithCode, account } = await aReviewer(repository)
    const { asked, response } = await sendWithCode(`${url}/release`)
    expect(asked.pathname + asked.searchParams.get('need')).toBe('/settings/confirm-accessfactor')
    expect([response.statusCode, response.headers.location]).toEqual([
      303,
      `/${repository.path}/packages/acme/lib?version=1.1.0`,
    ])
    expect(expand((await ask('p2/acme/lib.json')).body).map(({ version }) => version)).toEqual([
      '1.1.0',
      '1.0.0',
    ])
    const events = await eventsOf(t.db, { repositoryId: repository.id, action: 'release-stage' }, [
      'actorId',
      'via',
    ])
    expect(events).toEqual([{ actorId: account.id, via: 'browser' }])
    // The release is also a publication, and Home has it once.
    expect((await read('/')).body.match(/<code>1\.1\.0<\/code>/g)).toHaveLength(1)
  })

  it('takes no password instead, and no code of six minutes ago', async () => {
    const { repository, url } = await aStage()
    const { send } = await aReviewer(repository)
    await setProofAges(t.db, '6 minutes')
    const asked = await send(`${url}/release`)
    expect(asked.headers.location).toContain('need=factor')
    const fields = { return: '', need: 'factor', current_password: 'correct horse battery staple' }
    const refused = await send('/settings/confirm-access', fields)
    expect(refused.statusCode).toBe(403)
    expect(refused.body).toContain('a code of your authenticator app')
    await send('/settings/confirm-access', { ...fields, need: '' })
    expect((await send(`${url}/release`)).headers.location).toContain('need=factor')
  })

  it('takes no recovery code instead', async () => {
    const { repository, ask, url } = await aStage()
    const { account, person } = await aReviewer(repository)
    const half = await halfSignIn(t.app, account)
    const signedIn = await half.send({ recovery_code: person?.recoveryCodes[0] ?? '' })
    const cookie = `${half.cookie}; ${cookiesOf(signedIn)}`
    const page = await t.app.inject({ url, headers: { cookie } })
    const asked = await post(t.app, `${url}/release`, cookie, { csrf_token: csrfTokenIn(page) })
    expect(asked.headers.location).toContain('need=factor')
    expect(expand((await ask('p2/acme/lib.json')).body)).toHaveLength(1)
  })

  it('tells an account without a second factor to set one up', async () => {
    const { repository, ask, url } = await aStage()
    const { send } = await aReviewer(repository, { hasFactor: false })
    const response = await send(`${url}/release`)
    expect(response.statusCode).toBe(403)
    expect(response.body).toContain('href="/settings/second-factor"')
    expect(expand((await ask('p2/acme/lib.json')).body)).toHaveLength(1)
  })

  it('rejects with the reason', async () => {
    const { repository, url, stage } = await aStage()
    const { sendWithCode, read } = await aReviewer(repository)
    const { response } = await sendWithCode(`${url}/reject`, { reason: 'it is evil' })
    expect(response.headers.location).toBe(`/${repository.path}/-/stages`)
    expect((await read(url)).body).toContain('rejected')
    const events = await eventsOf(t.db, { repositoryId: repository.id, action: 'reject' }, ['details'])
    expect(events).toMatchObject([{ details: { reason: 'it is evil' } }])
    expect((await stage('1.1.0')).statusCode).toBe(202)
  })

  it('stores and shows the first of two approvals', async () => {
    const publisher = await aPublisher(t)
    const { repository } = publisher
    await setReleaseRule(t, repository, { release: 'direct', twoPeople: true })
    const authorization = basic(await aDeployToken(t.db, await groupOf(t.db, repository)))
    const { id } = (await publisher.stage('1.0.0', { headers: { authorization } })).json()
    const url = `/${repository.path}/-/stages/${id}`
    const [first, second] = [await aReviewer(repository), await aReviewer(repository)]
    const approved = await first.sendWithCode(`${url}/release`)
    expect(approved.response.headers.location).toBe(url)
    expect((await first.read(url)).body).toContain('You approved it: another developer must release it, too.')
    expect((await second.read(url)).body).toContain(`by ${first.account.username}`)
    const released = await second.sendWithCode(`${url}/release`)
    expect(released.response.headers.location).toContain('/packages/acme/lib?version=1.0.0')
  })
})

describe('a repository with reviewed releases', () => {
  it('restores nothing in the browser where two people are needed, and says so before it asks for a code', async () => {
    const { repository, push, token } = await aPublisher(t, {
      role: 'admin',
      scopes: ['registry-package:rw', 'registry-package-delete:rw'],
    })
    await push('1.0.0')
    const reviewer = await aReviewer(repository, { role: 'admin' })
    const versions = `/${repository.path}/packages/acme/lib/-/versions`
    await setProofAges(t.db, '1 minute')
    await reviewer.send(`${versions}/delete`, { version: '1.0.0' })
    await setReleaseRule(t, repository, { twoPeople: true })
    await setProofAges(t.db, '1 hour')
    const command = `svc version restore ${repository.path} acme/lib 1.0.0`
    const asked = await reviewer.read(`${versions}/restore?version=1.0.0`)
    expect([asked.statusCode, asked.body.includes(command)]).toEqual([409, true])
    const byToken = await callApi(
      t,
      token,
      'POST',
      `/api/repositories/${repository.path}/packages/acme/lib/1.0.0/restore`,
    )
    expect([byToken.statusCode, byToken.body.includes(command)]).toEqual([409, true])
  })

  it('restores a deleted version with a second factor only, and with no token', async () => {
    const { repository, push, account, token } = await aPublisher(t, {
      role: 'admin',
      scopes: ['registry-package:rw', 'registry-package-delete:rw'],
    })
    await push('1.0.0')
    const reviewer = await aReviewer(repository, { role: 'admin' })
    const versions = `/${repository.path}/packages/acme/lib/-/versions`
    await setProofAges(t.db, '1 minute')
    await reviewer.send(`${versions}/delete`, { version: '1.0.0' })
    await setReleaseRule(t, repository)
    expect(account.id).toBeDefined()
    const byToken = await t.app.inject({
      method: 'POST',
      url: `/api/repositories/${repository.path}/packages/acme/lib/1.0.0/restore`,
      headers: { authorization: `Bearer ${token}` },
    })
    expect(byToken.statusCode).toBe(409)
    const { response } = await reviewer.sendWithCode(`${versions}/restore`, { version: '1.0.0' })
    expect(response.statusCode).toBe(303)
    expect(await eventsOf(t.db, { repositoryId: repository.id, action: 'restore' }, ['version'])).toEqual([
      { version: '1.0.0' },
    ])
  })
})
