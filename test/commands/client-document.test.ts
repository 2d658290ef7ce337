import { describe, expect, it } from 'vitest'
import { findApplicationByClientId } from '../../src/oauth/applications.ts'
import { useCommands } from '../support/commands.ts'
import { aWaitingDocument } from '../support/document-server.ts'

describe('svc client-document (OPENID 276)', () => {
  const commands = useCommands()

  it('lists, approves and rejects what waits, and writes the migration of the application', async () => {
    expect((await commands.run('client-document', 'list')).stdout).toBe('No document waits.\n')
    const first = await aWaitingDocument(commands.db, { name: 'Build Agent' })
    const second = await aWaitingDocument(commands.db, { name: 'Odd Agent' })
    const listed = (await commands.run('client-document', 'list')).stdout
    expect(listed).toContain(
      `${first.id}  Build Agent  ${first.clientId}  returns to https://app.example.com/callback`,
    )
    const approved = await commands.json('client-document', 'approve', first.id)
    expect(approved).toMatchObject({ client_id: first.clientId, status: 'approved' })
    expect(await findApplicationByClientId(commands.db, first.clientId)).toMatchObject({
      redirectUris: first.redirectUris,
      isUnreviewed: false,
    })
    const rejected = await commands.json('client-document', 'reject', second.id, '--reason', 'Unknown')
    expect(rejected).toMatchObject({ state: 'rejected', reason: 'Unknown' })
    expect((await commands.run('client-document', 'list')).stdout).toBe('No document waits.\n')
    expect((await commands.run('client-document', 'list', '--state', 'rejected')).stdout).toContain(
      'Odd Agent',
    )
    expect(await commands.fail('client-document', 'approve', first.id)).toContain('There is no document')
  })
})
