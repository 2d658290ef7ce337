import { createHash } from 'node:crypto'
import { deflateSync } from 'node:zlib'

/** Parts of the protocol of Git (version 2), for servers that lie. */

/** Returns a line of the protocol: its length in 4 hex digits, and its bytes. */
export function packet(text: string | Buffer): Buffer {
  const bytes = Buffer.from(text as string)
  return Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, '0')), bytes])
}

/** The end of a response. */
export const flush = Buffer.from('0000')

/** Returns the list of refs as a server sends it: `<object id> <name>` in each line. */
export function refList(lines: readonly (string | Buffer)[]): Buffer {
  return Buffer.concat([
    ...lines.map((line) => packet(Buffer.concat([Buffer.from(line as string), Buffer.from('\n')]))),
    flush,
  ])
}

/** Returns the start of a response with a pack. */
export const packfile = packet('packfile\n')

/** Returns a part of a pack. */
export function packPart(bytes: Buffer): Buffer {
  return packet(Buffer.concat([Buffer.from([1]), bytes]))
}

/** Returns a pack of two objects: a small file, and a delta that repeats it until it has `size` bytes. */
export function deltaBomb(size: number): Buffer {
  const base = Buffer.alloc(0xffff)
  const id = createHash('sha1').update(`blob ${base.length}\0`).update(base).digest()
  const copies = Math.floor(size / base.length)
  const copy = Buffer.from([0x80 | 0x10 | 0x20, 0xff, 0xff])
  const delta = Buffer.concat([
    sizeOf(base.length),
    sizeOf(copies * base.length),
    ...Array.from({ length: copies }, () => copy),
  ])
  return packOf([
    Buffer.concat([entryHead(3, base.length), deflateSync(base)]),
    Buffer.concat([entryHead(7, delta.length), id, deflateSync(delta)]),
  ])
}

/** Returns a pack without objects. */
export function emptyPack(): Buffer {
  return packOf([])
}

/** Returns the start of a pack with one file that never ends. Random blocks of `endlessBlock` follow. */
export function endlessPack(): Buffer {
  return Buffer.concat([packHead(1), entryHead(3, 2 ** 40), Buffer.from([0x78, 0x01])])
}

/** Returns a block of zlib that is not compressed, and not the last one. */
export function endlessBlock(bytes: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt16LE(bytes.length, 1)
  head.writeUInt16LE(bytes.length ^ 0xffff, 3)
  return Buffer.concat([head, bytes])
}

function packHead(count: number): Buffer {
  const head = Buffer.from('PACK\0\0\0\x02\0\0\0\0')
  head.writeUInt32BE(count, 8)
  return head
}

function packOf(entries: readonly Buffer[]): Buffer {
  const body = Buffer.concat([packHead(entries.length), ...entries])
  return Buffer.concat([body, createHash('sha1').update(body).digest()])
}

/** The type and size of an object in a pack. */
function entryHead(type: number, size: number): Buffer {
  const bytes = [(type << 4) | (size % 16)]
  for (let rest = Math.floor(size / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 0x80
    bytes.push(rest % 128)
  }
  return Buffer.from(bytes)
}

function sizeOf(size: number): Buffer {
  const bytes = [size % 128]
  for (let rest = Math.floor(size / 128); rest > 0; rest = Math.floor(rest / 128)) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 0x80
    bytes.push(rest % 128)
  }
  return Buffer.from(bytes)
}
