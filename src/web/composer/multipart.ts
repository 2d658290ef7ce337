import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { Busboy } from '@fastify/busboy'
import type { ArchiveVolume, ReceivedArchive } from '../../archives/archive-store.ts'
import { discardArchive, receiveArchive } from '../../archives/local-store.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'

/** The most bytes of a form field. Longer ones are cut. */
const maxFieldBytes = 64 * 1024 + 1
const field = 'package'
const limits = { fields: 16, fieldSize: maxFieldBytes, files: 4, parts: 20, headerPairs: 32 }

/** Returns whether a body is a form with files. Composer's upload plugins send such forms. */
export function isMultipart(contentType: string | undefined): contentType is string {
  return /^multipart\/form-data\s*;/i.test(contentType ?? '')
}

/** The limits and callbacks for a form with an archive. */
interface MultipartOptions {
  maxBytes: number
  /** The name of a field that is a text also when it is sent as a file. */
  textField?: string
  /** Called for each field that is not a file. */
  onField?: (name: string, value: string) => void
  /** Called with the file name before the archive is received. An error that it throws ends the upload. */
  onFile?: (fileName: string) => void
}

/** Streams the file in the form field `package` to the volume. */
export async function receiveMultipart(
  volume: ArchiveVolume,
  { request, contentType }: { request: IncomingMessage; contentType: string },
  { maxBytes, textField, onField, onFile }: MultipartOptions,
): Promise<ReceivedArchive> {
  // The client has disconnected before this. The request emits nothing any more.
  if (request.destroyed) throw Object.assign(new Error('aborted'), { code: 'ECONNRESET' })
  const form = openForm(contentType, textField)
  const archives: Promise<ReceivedArchive>[] = []
  const parsed = new Promise<void>((resolve, reject) => {
    form.on('field', (name, value) => onField?.(name, value))
    form.on('file', (name: string, file: Readable, fileName: string) => {
      // When a form is truncated, each of its files gets an error, even files that are not read.
      file.on('error', () => {})
      if (name !== field) return void file.resume()
      if (archives.length > 0) {
        file.resume()
        reject(malformed(`the form has more than one file in the field "${field}"`))
        return
      }
      try {
        onFile?.(fileName ?? '')
      } catch (error) {
        file.resume()
        reject(error)
        return
      }
      request.once('error', (error) => file.destroy(error))
      const receiving = receiveArchive(volume, file, { maxBytes })
      receiving.catch(reject)
      archives.push(receiving)
    })
    form.on('error', (error) => reject(malformed(String(error))))
    form.on('finish', resolve)
    request.once('error', reject)
  })
  request.pipe(form)
  try {
    await parsed
  } catch (error) {
    request.unpipe(form)
    await archives[0]?.then(discardArchive, () => {})
    throw error
  }
  return archives[0] ?? Promise.reject(malformed(`send the archive as a file in the field "${field}"`))
}

function openForm(contentType: string, textField: string | undefined) {
  try {
    return new Busboy({
      headers: { 'content-type': contentType },
      limits,
      isPartAFile: (name, type, fileName) =>
        name !== textField && (fileName !== undefined || type === 'application/octet-stream'),
    })
  } catch (error) {
    throw malformed(String(error))
  }
}

function malformed(why: string): Refusal {
  return new Refusal(errcode.invalidArgument, 'malformed multipart body', { details: [why] })
}
