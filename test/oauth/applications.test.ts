import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { brokenConstraint } from '../../src/database/errors.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret, makeSecret } from '../../src/domain/secrets.ts'
import { renewClientSecret } from '../../src/oauth/application-changes.ts'
import {
  findApplicationByClientId,
  findLogo,
  insertApplication,
  listApplications,
  rotateClientSecret,
  setApplicationStatus,
} from '../../src/oauth/applications.ts'
import { useDatabase } from '../support/database.ts'
import { lockWholeRow, openTransaction, untilWaiting } from '../support/locks.ts'
import { anApplication, pixel } from '../support/oauth-actors.ts'
import { listClientSecrets } from '../support/oauth-rows.ts'

describe('the table of applications', () => {
  const t = useDatabase()

  it('finds a registered application, without logo and secrets', async () => {
    const { basic: _basic, clientSecret, ...application } = await anApplication(t.db, { exactRedirect: true })
    expect(await findApplicationByClientId(t.db, application.clientId)).toEqual(application)
    expect(JSON.stringify(application)).not.toContain(clientSecret)
    expect(await listApplications(t.db)).toContainEqual(application)
  })

  it('finds nothing under an unknown client identifier', async () => {
    expect(await findApplicationByClientId(t.db, 'nobodyhasthis')).toBeNull()
    expect(await setApplicationStatus(t.db, 'nobodyhasthis', 'approved')).toBeNull()
    expect(await rotateClientSecret(t.db, 'nobodyhasthis', hashSecret('x'), 60)).toBeNull()
    expect(await findLogo(t.db, 'nobodyhasthis')).toBeNull()
  })

  it('suspends an application', async () => {
    const { clientId } = await anApplication(t.db)
    const suspended = await setApplicationStatus(t.db, clientId, 'suspended')
    expect(suspended?.status).toBe('suspended')
    expect((await findApplicationByClientId(t.db, clientId))?.status).toBe('suspended')
  })

  it('shows the logo with the type of its bytes, after the application was approved', async () => {
    const approved = await anApplication(t.db)
    const pending = await anApplication(t.db, { status: 'pending' })
    expect(await findLogo(t.db, approved.clientId)).toEqual({
      image: pixel,
      type: 'image/png',
      size: pixel.length,
      sha256: createHash('sha256').update(pixel).digest('hex'),
    })
    expect(await findLogo(t.db, pending.clientId)).toBeNull()
  })

  it('lets the older secrets work for the overlap, and no longer than they would have', async () => {
    const { id, clientId } = await anApplication(t.db)
    await rotateClientSecret(t.db, clientId, hashSecret(makeSecret('client')), 3600)
    await rotateClientSecret(t.db, clientId, hashSecret(makeSecret('client')), 7200)
    const secrets = await listClientSecrets(t.db, { id })
    expect(secrets.map(({ seconds }) => Math.round(seconds / 3600))).toEqual([1, 2, Number.POSITIVE_INFINITY])
  })

  it('has one secret after two renewals at once that let no earlier one work', async () => {
    const application = await anApplication(t.db)
    const { tx, commit } = await openTransaction(t.db)
    await lockWholeRow(tx, 'application', application)
    const renewals = Promise.all([1, 2].map(() => renewClientSecret(t.db, operator, application.clientId, 0)))
    await untilWaiting(t.db, 2)
    await commit()
    await renewals
    const secrets = await listClientSecrets(t.db, application)
    expect(secrets.map(({ seconds }) => seconds > 0)).toEqual([false, false, true])
  })

  it.each([
    [{ name: 'x'.repeat(51) }, 'application_name_1_to_50_characters'],
    [{ description: 'x'.repeat(351) }, 'application_description_max_350_characters'],
    [{ website: `https://${'x'.repeat(121)}` }, 'application_website_is_a_web_address_max_128_characters'],
    [{ website: 'https://app.example.com@evil.example' }, 'application_website_has_no_userinfo'],
    [{ website: 'https://app.example.com/\u202e' }, 'application_website_is_plain_text'],
    [{ name: 'App\u2066' }, 'application_name_is_plain_text'],
    [{ description: 'An app\u2029' }, 'application_description_is_plain_text'],
    [{ logo: Buffer.concat([pixel, Buffer.alloc(1024 * 1024)]) }, 'application_logo_max_1_mb'],
    [{ logo: Buffer.from('<svg/>') }, 'application_logo_is_a_png_jpeg_gif_or_webp_image'],
    [{ scopes: ['repo-delete:r'] }, 'application_scopes_are_predefined'],
    [{ redirectUri: 'javascript:alert(1)' }, 'application_redirect_uri_is_http_without_userinfo_or_fragment'],
  ])('refuses what breaks a bound of SPEC 2.1: %#', async (difference, rule) => {
    const refusal = await anApplication(t.db, difference).catch((error: unknown) => error)
    expect(brokenConstraint(refusal)).toBe(rule)
  })

  it('registers no application without its secret', async () => {
    const {
      clientSecret,
      basic: _basic,
      id: _id,
      createdAt: _createdAt,
      ...application
    } = await anApplication(t.db)
    const twin = {
      ...application,
      clientId: 'anotherclient',
      logo: pixel,
      secretHash: hashSecret(clientSecret),
    }
    await expect(insertApplication(t.db, twin)).rejects.toThrow()
    expect(await findApplicationByClientId(t.db, 'anotherclient')).toBeNull()
  })
})
