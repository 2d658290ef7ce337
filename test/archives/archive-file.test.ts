import { describe, it } from 'vitest'
import { expectInvalid } from '../support/check-zip.ts'
import { aZip, type CraftedEntry, craftZip } from '../support/zip.ts'

const manifest: CraftedEntry = { name: 'composer.json', content: '{"name":"acme/lib"}' }
const whole = aZip({ 'composer.json': '{"name":"acme/lib"}', 'src/Lib.php': '<?php' })
const inParts = 'it is one part of an archive in several parts'

describe('checkZip refuses a file', () => {
  const refused: [what: string, zip: Buffer, why: string | RegExp][] = [
    ['of no bytes', Buffer.alloc(0), 'it is not a zip file'],
    ['of noise', Buffer.alloc(100_000, 'noise'), 'it is not a zip file'],
    ['that is a tar.gz', Buffer.from([0x1f, 0x8b, ...Buffer.alloc(100)]), 'it is gzip, not zip'],
    ['that is cut off', whole.subarray(0, -30), 'it is cut off: its end record is missing'],
    ['that is cut off in its end record', whole.subarray(0, -1), 'it is cut off: its end record is missing'],
    [
      'that is cut off in its comment',
      craftZip([manifest], { end: { commentBytes: 9 } }),
      'it is cut off within its comment',
    ],
    [
      'that begins with junk',
      craftZip([manifest], { prefix: Buffer.from('#!/bin/sh\n') }),
      /^its directory ends at byte/,
    ],
    [
      'that begins with junk counted in',
      craftZip([{ ...manifest, junk: Buffer.from('#!/bin/sh\n') }]),
      '10 bytes precede its first entry',
    ],
    ['that ends in garbage', Buffer.concat([whole, Buffer.from('garbage')]), '7 bytes follow its end'],
    ['without entries', craftZip([]), 'it is empty'],
    [
      'with a gap behind its directory',
      craftZip([manifest], { gap: Buffer.from('gap') }),
      /^its directory ends at byte/,
    ],
    ['that says to be a second disk', craftZip([manifest], { end: { disk: 1 } }), inParts],
    ['with some of its entries on another disk', craftZip([manifest], { end: { count: 2 } }), inParts],
    [
      'with more entries than it counts',
      craftZip([manifest, { name: 'a' }], { end: { count: 1, onDisk: 1 } }),
      'the size of its directory is not the size of its entries',
    ],
    [
      'with fewer entries than it counts',
      craftZip([manifest], { end: { count: 2, onDisk: 2 } }),
      /^directory entry 2: /,
    ],
    ['with two end records', withTwoEnds(), 'it has two end records, and so two tables of contents'],
    [
      'with two end records, one of them zip64',
      withTwoEnds({ zip64: true }),
      'it has two end records, and so two tables of contents',
    ],
    [
      'whose end records disagree',
      craftZip([manifest], { zip64: true, end: { count: 2 } }),
      'its two end records contradict each other',
    ],
    [
      'whose zip64 end record is outside',
      craftZip([manifest], { zip64: true, locatorShift: 1 }),
      'its zip64 end record is outside the file',
    ],
    [
      'whose zip64 end record is far outside',
      craftZip([manifest], { zip64: true, locatorShift: 2 ** 52 }),
      'its zip64 end record is outside the file',
    ],
    [
      'whose zip64 end record is elsewhere',
      craftZip([manifest], { zip64: true, locatorShift: -1 }),
      'its zip64 end record is not where it should be',
    ],
    [
      'whose zip64 end record has a false size',
      craftZip([manifest], { zip64: true, recordShift: 8 }),
      'its zip64 end record has a wrong size',
    ],
    ['whose zip64 locator counts two disks', craftZip([manifest], { zip64: true, disks: 2 }), inParts],
    ['whose zip64 locator counts no disk', craftZip([manifest], { zip64: true, disks: 0 }), inParts],
    [
      'whose zip64 end record says to be a second disk',
      craftZip([manifest], { zip64: true, end64: { disk: 1 }, end: { disk: 0xffff } }),
      inParts,
    ],
  ]
  it.each(refused)('%s', async (_, zip, why) => {
    await expectInvalid(zip, why)
  })
})

/** Two archives in one file. Each is valid according to its own end record. */
function withTwoEnds(first: { zip64?: boolean } = {}): Buffer {
  const inner = craftZip([manifest], first)
  return Buffer.concat([inner, relocated(craftZip([manifest]), inner.length)])
}

/** An archive of one entry, moved by `by` bytes from the start of a file. */
function relocated(zip: Buffer, by: number): Buffer {
  const moved = Buffer.from(zip)
  const start = zip.readUInt32LE(zip.length - 6)
  moved.writeUInt32LE(start + by, zip.length - 6)
  moved.writeUInt32LE(by, start + 42)
  return moved
}
