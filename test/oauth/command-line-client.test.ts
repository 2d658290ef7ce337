import { describe, expect, it } from 'vitest'
import { findApplicationByClientId } from '../../src/oauth/applications.ts'
import { addCommandLineClient, commandLineClientId } from '../../src/oauth/command-line-client.ts'
import { useDatabase } from '../support/database.ts'
import { pixel } from '../support/oauth-actors.ts'

describe('the application of the command line', () => {
  const database = useDatabase()
  const start = () => addCommandLineClient(database.db, { website: 'https://svc.example.com', logo: pixel })
  const found = () => findApplicationByClientId(database.db, commandLineClientId)

  it('is in a new database, also when two processes start at once', async () => {
    await Promise.all([start(), start()])
    expect(await found()).toMatchObject({ status: 'approved', isPublic: true, isDevice: true })
  })

  it('stays deleted when the server starts again', async () => {
    await database.db.query('delete from application where client_id = $1', [commandLineClientId])
    await start()
    expect(await found()).toBeNull()
  })
})
