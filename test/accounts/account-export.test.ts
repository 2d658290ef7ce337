import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { exportAccount } from '../../src/accounts/account-export.ts'
import { projectRoot } from '../../src/config.ts'
import { changeChoices } from '../../src/notifications/choices.ts'
import { setWatching, setWatchingGroup } from '../../src/notifications/watching.ts'
import { aGroup, aGroupMember, anAccount, aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { listReferringTables } from '../support/schema.ts'

/** Tables that refer to accounts, and are not exported. */
const notExported = {
  secrets: ['email_verification', 'password_reset', 'recovery_code', 'sign_in_origin', 'sign_in_step'],
  'what lasts for minutes': [
    'authorization_request',
    'browser_upload',
    'device_request',
    'proven_identity',
    'provider_sign_in',
  ],
  'a part of what is exported': ['account_authorization'],
  'what svc has to do': ['second_factor_notice'],
  'about others, and in the events': ['client_document', 'invitation', 'mirrored_package'],
}

describe('the export of an account', () => {
  const t = useApp()

  it('has what a person watches and may see, and how it is told', async () => {
    const account = await anAccount(t.db)
    const group = await aGroup(t.db, 'watched')
    await aGroupMember(t.db, account, group, 'developer')
    const shut = await aRepository(t.db)
    for (const repository of [await aRepository(t.db, { group, name: 'php' }), shut])
      await setWatching(t.db, account.id, repository.id, true)
    await setWatchingGroup(t.db, account.id, group.id, true)
    await changeChoices(t, account.id, { advisories: 'daily', digestHour: 19 })
    expect(await exportAccount(t.db, account.id)).toMatchObject({
      watched_repositories: ['watched/php'],
      watched_groups: ['watched'],
      notifications: { choices: { advisories: 'daily' }, digest_hour: 19 },
      directory_user: null,
      developed_applications: [],
    })
  })

  it('leaves out only what is named here', async () => {
    const text = await readFile(join(projectRoot, 'src/accounts/account-export.ts'), 'utf8')
    const missing = (await listReferringTables(t.db, 'account')).filter(
      (table) => !new RegExp(` ${table} `).test(text),
    )
    expect([...new Set(missing)].toSorted()).toEqual(Object.values(notExported).flat().toSorted())
  })
})
