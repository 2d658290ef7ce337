import pg from 'pg'
import { describe, expect, inject, it } from 'vitest'

describe('the PostgreSQL of a test run', () => {
  it('takes its settings and speaks UTF-8 over a Unix socket', async () => {
    const client = new pg.Client(inject('postgres'))
    await client.connect()
    const { rows } = await client.query(
      `select current_setting('server_encoding') as encoding, upper('é') as upper,
              current_setting('listen_addresses') as addresses, current_setting('data_checksums') as checksums,
              current_setting('max_connections') as connections`,
    )
    await client.end()
    expect(rows).toEqual([
      { encoding: 'UTF8', upper: 'É', addresses: '', checksums: 'on', connections: '200' },
    ])
  })
})
