import { createServer } from 'node:http'
import { promisify } from 'node:util'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Job } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { sendLogoutTokenJob } from '../../src/openid/logouts.ts'
import { openLog } from '../../src/web/server/log.ts'
import { anAccount, csrfTokenIn, post, signIn } from '../support/actors.ts'
import { type Apache, hasApacheModule, startApache } from '../support/apache.ts'
import { followAndApprove, open } from '../support/browse.ts'
import { readBlocks } from '../support/document-commands.ts'
import { useListeningApp } from '../support/listening.ts'
import { type ApplicationActor, anApplication } from '../support/oauth-actors.ts'
import { databaseUrl, freePort, runSvc } from '../support/program.ts'
import { has } from '../support/requires.ts'
import { webhooksHere } from '../support/webhook-receiver.ts'

const isComplete = has('apache2') && hasApacheModule

describe.skipIf(!isComplete)(
  'Apache as docs/sign-in-with-svc.md configures it (needs apache2 and libapache2-mod-auth-openidc)',
  async () => {
    const [port, apachePort, programPort] = [await freePort(), await freePort(), await freePort()]
    const t = useListeningApp(port, webhooksHere)
    const here = `http://127.0.0.1:${apachePort}`

    /** The program behind Apache. It returns the headers that it gets. */
    const program = createServer((request, response) => response.end(JSON.stringify(request.headers)))
    // Apache keeps its connections, and would use one in the moment in which the program closes it.
    program.keepAliveTimeout = 0
    let apache: Apache
    let application: ApplicationActor
    let account: { id: string; username: string }
    beforeAll(async () => {
      await new Promise<void>((resolve) => program.listen(programPort, '127.0.0.1', resolve))
      application = await anApplication(t.db, {
        scopes: ['openid', 'profile', 'email'],
        redirectUri: `${here}/callback`,
        exactRedirect: true,
      })
      account = await anAccount(t.db, { displayName: 'Ann', email: 'ann@example.com' })
      const registered = await runSvc(
        [
          ...['application', 'set', application.clientId],
          ...['--post-logout-redirect-uri', `${here}/goodbye`],
          ...['--backchannel-logout-uri', `${here}/callback?logout=backchannel`],
        ],
        { DATABASE_URL: databaseUrl(t.connection), DATA_DIR: t.config.dataDir },
      )
      expect([registered.code, registered.stderr]).toEqual([0, ''])
      const documented = (await readBlocks()).find(
        ({ file, language }) => file === 'docs/sign-in-with-svc.md' && language === 'apache',
      )
      // The module accepts an issuer with http, and warns.
      apache = await startApache(apachePort, documented?.text ?? '', {
        SVC: t.config.authUrl,
        CLIENT_ID: application.clientId,
        CLIENT_SECRET: application.clientSecret,
        APP_URL: here,
        PROGRAM_URL: `http://127.0.0.1:${programPort}`,
        PASSPHRASE: 'a random text',
      })
    })
    afterAll(async () => {
      await apache?.stop()
      program.closeAllConnections()
      await promisify(program.close.bind(program))()
    })

    /** A browser at Apache, which keeps cookies. fetch would say that it is a script, which gets no redirect. */
    function aBrowser() {
      const cookies = new Map<string, string>()
      return async (path: string, more: Record<string, string> = {}) => {
        const cookie = [...cookies].map((pair) => pair.join('=')).join('; ')
        const headers = { cookie, accept: 'text/html', ...more }
        const response = await request(new URL(path, here), { headers })
        for (const line of [response.headers['set-cookie'] ?? []].flat()) {
          const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
          if (value === '') cookies.delete(name)
          else cookies.set(name, value)
        }
        return {
          status: response.statusCode,
          location: String(response.headers['location'] ?? ''),
          body: await response.body.text(),
        }
      }
    }

    /** A browser that has signed in at Apache with a session at svc. */
    async function aSignedInBrowser(cookie: string, path = '/') {
      const browse = aBrowser()
      const begun = await browse(path)
      expect([begun.status, begun.location]).toEqual([
        302,
        expect.stringContaining(`${t.config.authUrl}/oauth2/auth?`),
      ])
      const link = new URL(begun.location)
      expect(Object.fromEntries(link.searchParams)).toMatchObject({
        scope: 'openid profile email',
        code_challenge_method: 'S256',
        nonce: expect.stringMatching(/./),
      })
      const back = await followAndApprove(t, link.href, cookie)
      const arrived = await browse(back.href)
      expect([arrived.status, arrived.location, arrived.status === 302 ? '' : await apache.log()]).toEqual([
        302,
        `${here}${path}`,
        '',
      ])
      return browse
    }
    const isSignedIn = async (browse: ReturnType<typeof aBrowser>) => (await browse('/')).status === 200

    it('signs people in with PKCE, and gives the program their claims in headers (OPENID 202, 241–245, 254)', async () => {
      const browse = await aSignedInBrowser(await signIn(t.app, account), '/reports?year=2026')
      const seen = await browse('/reports', { OIDC_CLAIM_sub: '1', OIDC_CLAIM_groups: 'admins' })
      expect(seen.status).toBe(200)
      const headers = JSON.parse(seen.body)
      expect(headers).toMatchObject({
        oidc_claim_sub: account.id,
        oidc_claim_iss: t.config.authUrl,
        oidc_claim_name: 'Ann',
        oidc_claim_preferred_username: account.username,
        oidc_claim_email: 'ann@example.com',
        oidc_claim_email_verified: '0',
        oidc_claim_acr: '1',
      })
      // Those of a browser do not arrive.
      expect(headers).not.toHaveProperty('oidc_claim_groups')
      expect(await apache.log()).not.toContain(':error]')
    })

    it('signs out of svc too, and returns to a page for everybody (OPENID 257)', async () => {
      const cookie = await signIn(t.app, account)
      const browse = await aSignedInBrowser(cookie)
      const left = await browse('/callback?logout=')
      expect(await isSignedIn(browse)).toBe(false)
      const link = new URL(left.location)
      expect(link.href).toContain(`${t.config.authUrl}/oauth2/logout?id_token_hint=`)
      const page = await open(t, link.pathname + link.search, cookie)
      expect(page.body).toContain(application.name)
      const done = await post(t.app, '/oauth2/logout/confirm', cookie, {
        csrf_token: csrfTokenIn(page),
        ...Object.fromEntries(link.searchParams),
      })
      expect(done.headers.location).toBe(`${here}/goodbye`)
      expect((await open(t, '/settings/account', cookie)).statusCode).toBe(303)
      expect((await browse(`${here}/goodbye`)).status).toBe(200)
    })

    it('ends its session when the session at svc ends, and not that of another person (OPENID 258)', async () => {
      const cookie = await signIn(t.app, account)
      const other = await signIn(t.app, await anAccount(t.db))
      const [ended, kept] = [await aSignedInBrowser(cookie), await aSignedInBrowser(other)]
      expect([await isSignedIn(ended), await isSignedIn(kept)]).toEqual([true, true])
      const page = await open(t, '/settings/account', cookie)
      await post(t.app, '/logout', cookie, { csrf_token: csrfTokenIn(page) })
      await runDueJobs({ config: t.config, db: t.db }, [sendLogoutTokenJob as Job], openLog('silent'))
      // The server may have taken the job first, and still sends the token.
      await expect.poll(() => isSignedIn(ended)).toBe(false)
      expect(await isSignedIn(kept)).toBe(true)
    })
  },
)
