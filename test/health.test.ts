import { describe, expect, it } from 'vitest'
import { useApp } from './support/app.ts'

describe('GET /healthz and /readyz', () => {
  const t = useApp()

  it('says that the process lives', async () => {
    const answer = await t.app.inject('/healthz')
    expect(answer.statusCode).toBe(200)
    expect(answer.json()).toEqual({ status: 'ok' })
  })

  it('is ready when the database answers and no migration is missing', async () => {
    const answer = await t.app.inject('/readyz')
    expect(answer.statusCode).toBe(200)
    expect(answer.json()).toEqual({ status: 'ready' })
  })

  it('is not ready while a migration is missing, and names it', async () => {
    await t.db.query(`delete from applied_migration where name = '0004_tokens.sql'`)
    const answer = await t.app.inject('/readyz')
    expect(answer.statusCode).toBe(503)
    expect(answer.json().reason).toContain('0004_tokens.sql')
  })
})
