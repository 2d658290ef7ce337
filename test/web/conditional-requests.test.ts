import { expect, it } from 'vitest'
import { readRange } from '../../src/web/conditional-requests.ts'

it.each([
  [undefined, null],
  ['', null],
  ['bytes=0-0', { start: 0, end: 0 }],
  ['bytes=5-', { start: 5, end: 9 }],
  ['bytes=5-100', { start: 5, end: 9 }],
  ['bytes=-3', { start: 7, end: 9 }],
  ['bytes=-30', { start: 0, end: 9 }],
  ['bytes=-0', 'unsatisfiable'],
  ['bytes=10-', 'unsatisfiable'],
  ['bytes=7-5', null],
  ['bytes=-', null],
  ['bytes=0-1,3-4', null],
  ['lines=0-1', null],
  ['bytes=0-99999999999999999999', null],
])('reads the range %s of ten bytes as %j (RFC 9110 §14.2)', (header, range) => {
  expect(readRange(header, 10)).toEqual(range)
})
