import { describe, expect, it } from 'vitest'
import { type ListPart, pageOf } from '../../src/domain/paging.ts'

const letters = ['a', 'b', 'c', 'd', 'e']

/** Lists letters as a statement does, and notes which parts were asked for. */
function aList() {
  const asked: ListPart[] = []
  const list = async (part: ListPart) => {
    asked.push(part)
    return letters.filter((letter) => part.after === null || letter > part.after).slice(0, part.limit)
  }
  return { asked, list }
}

describe('a page of a list', () => {
  it.each([
    [
      { after: null, limit: 2 },
      { rows: ['a', 'b'], next: 'b' },
    ],
    [
      { after: 'b', limit: 2 },
      { rows: ['c', 'd'], next: 'd' },
    ],
    [
      { after: 'd', limit: 2 },
      { rows: ['e'], next: null },
    ],
    // Exactly full, and nothing follows.
    [
      { after: null, limit: 5 },
      { rows: letters, next: null },
    ],
    [
      { after: 'e', limit: 2 },
      { rows: [], next: null },
    ],
  ])('has the rows of %o, and the key of its last row if more follow', async (wanted, page) => {
    expect(await pageOf(aList().list, wanted, (letter) => letter)).toEqual(page)
  })

  it('is read together with one row more', async () => {
    const { asked, list } = aList()
    await pageOf(list, { after: 'a', limit: 3 }, (letter) => letter)
    expect(asked).toEqual([{ after: 'a', limit: 4 }])
  })

  it('joins the pages to the whole list, whatever their size', async () => {
    for (let limit = 1; limit <= letters.length + 1; limit += 1) {
      const all: string[] = []
      for (let after: string | null = null, first = true; first || after !== null; first = false) {
        const { rows, next }: { rows: string[]; next: string | null } = await pageOf(
          aList().list,
          { after, limit },
          (letter) => letter,
        )
        all.push(...rows)
        after = next
      }
      expect(all).toEqual(letters)
    }
  })
})
