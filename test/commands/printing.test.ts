import { afterEach, expect, it, vi } from 'vitest'
import { printList } from '../../src/commands/run.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

it('a row of a list is one line, and does not control the terminal', async () => {
  let printed = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed += String(text)
    return true
  })
  const rows = ['one\u001b[2J\u009b31m', 'two\r\nfaked row', 'three\u202e']
  const print = (options: { json?: boolean }) =>
    printList<string>(
      { limit: 10, ...options },
      {
        list: async () => rows,
        keyOf: (row) => row,
        describe: (row) => ({ row }),
        line: (row) => row,
        none: 'nothing',
      },
    )
  await print({})
  expect(printed.trimEnd().split('\n')).toHaveLength(3)
  expect(printed.replaceAll('\n', '')).toMatch(/^[^\p{Cc}\u202e]+$/u)
  printed = ''
  await print({ json: true })
  expect(JSON.parse(printed)).toEqual({ items: rows.map((row) => ({ row })), next: null })
})
