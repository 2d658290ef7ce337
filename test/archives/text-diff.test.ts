import { describe, expect, it } from 'vitest'
import { cutDiff, diffTexts, type TextDiff } from '../../src/archives/text-diff.ts'

const bytes = (text: string) => Buffer.from(text)
const lines = (count: number, from = 1) =>
  Array.from({ length: count }, (_, i) => `line ${i + from}\n`).join('')

describe('the differences between two texts', () => {
  it('are blocks of lines with three lines around them, and the numbers of their lines', () => {
    const after = lines(30).replace('line 5\n', 'line five\n').replace('line 25\n', '')
    expect(diffTexts(bytes(lines(30)), bytes(after))).toEqual({
      added: 1,
      removed: 2,
      isCut: false,
      blocks: [
        {
          oldStart: 2,
          newStart: 2,
          lines: [' line 2', ' line 3', ' line 4', '-line 5', '+line five', ' line 6', ' line 7', ' line 8'],
        },
        {
          oldStart: 22,
          newStart: 22,
          lines: [' line 22', ' line 23', ' line 24', '-line 25', ' line 26', ' line 27', ' line 28'],
        },
      ],
    })
  })

  it('are all lines of a file that was added or removed', () => {
    expect(diffTexts(null, bytes('a\nb\n'))).toMatchObject({ added: 2, blocks: [{ lines: ['+a', '+b'] }] })
    expect(diffTexts(bytes('a\nb'), null)).toMatchObject({ removed: 2, blocks: [{ lines: ['-a', '-b'] }] })
    expect(diffTexts(null, bytes(''))).toMatchObject({ added: 0, blocks: [] })
  })

  it('include a missing newline at the end', () => {
    expect(diffTexts(bytes('a'), bytes('a\n'))).toMatchObject({
      blocks: [{ lines: ['-a', '\\ No newline at end of file', '+a'] }],
    })
  })

  it('are not looked for in bytes that are not text, nor in texts that have almost nothing in common', () => {
    expect(diffTexts(bytes('a'), Buffer.from([0xff, 0xfe]))).toBe('not text')
    expect(diffTexts(bytes('a\0'), null)).toBe('not text')
    const noise = (seed: number) =>
      bytes(Array.from({ length: 20_000 }, (_, i) => `${(i * 7919 * seed) % 100_003}`).join('\n'))
    expect(diffTexts(noise(1), noise(2))).toBe('too different')
  })

  it('have a bound of changes, which no busy machine reaches earlier', () => {
    const changed = (count: number) =>
      bytes(
        Array.from({ length: 20_000 }, (_, i) => (i < 15 * count && i % 15 === 0 ? `new ${i}` : i)).join(
          '\n',
        ),
      )
    expect(diffTexts(changed(0), changed(1250))).toMatchObject({ added: 1250, removed: 1250 })
    expect(diffTexts(changed(0), changed(1251))).toBe('too different')
  })

  it('have a bound of lines and characters, with the number of all changes', () => {
    const long = diffTexts(null, bytes(`${'x'.repeat(10_000)}\n${lines(5000)}`)) as TextDiff
    expect(long).toMatchObject({ added: 5001, isCut: true })
    expect(long.blocks[0]?.lines).toHaveLength(3000)
    expect(long.blocks[0]?.lines[0]).toHaveLength(501)
    const some = diffTexts(bytes(lines(30)), bytes(lines(30).replaceAll('5\n', 'five\n'))) as TextDiff
    expect(cutDiff(some, 10).blocks.map((block) => block.lines.length)).toEqual([8, 2])
    expect(cutDiff(some, 100, 20).blocks.map((block) => block.lines.length)).toEqual([2])
    expect(cutDiff(some, 100)).toEqual(some)
  })
})
