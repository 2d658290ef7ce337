import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { listTriggers } from '../support/schema.ts'

describe('the list of triggers in docs/architecture.md', () => {
  const database = useDatabase()

  it('has every trigger of a migrated database, at most twenty, with its table and what it does', async () => {
    const document = readFileSync(new URL('../../docs/architecture.md', import.meta.url), 'utf8')
    const [, section = ''] = document.split('\n## Triggers\n')
    const names = (cell: string) => Array.from(cell.matchAll(/`(\w+)`/g), ([, name]) => name ?? '')
    const rows = [...section.matchAll(/^\| (`.+`) \| (`.+`) \| (\w.{15,}) \|$/gm)]
    // A row about several tables has one trigger of each.
    const listed = rows.flatMap(([, tables = '', triggers = '']) => {
      const places = names(tables)
      return names(triggers).map((trigger, i) => `${places[places.length === 1 ? 0 : i]} ${trigger}`)
    })
    const triggers = await listTriggers(database.db)
    expect(triggers.length).toBeGreaterThan(10)
    // What an act does stands in the act. A trigger guards what must hold whoever changes the row.
    expect(triggers.length).toBeLessThanOrEqual(20)
    expect(new Set(listed)).toEqual(new Set(triggers))
    expect(listed.length).toBe(triggers.length)
  })
})
