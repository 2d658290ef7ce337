import type { Readable } from 'node:stream'
import { Busboy } from '@fastify/busboy'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { FormFields } from './forms.ts'

const limits = { fields: 200, fieldSize: 8192, fieldNameSize: 100, files: 1, parts: 210, headerPairs: 20 }

/** A form with files as it was sent. `form` is null when it cannot be read. */
interface MultipartBody {
  form: FormFields | null
  files: ReadonlyMap<string, Buffer>
}

/**
 * Lets the scope read forms with one file, whose fields `readForm` reads. It keeps at most one byte more than
 * `maxFileBytes`, which is enough to reject a larger file.
 */
export function acceptMultipart(scope: FastifyInstance, { maxFileBytes }: { maxFileBytes: number }): void {
  scope.addContentTypeParser('multipart/form-data', ({ headers }: FastifyRequest, body: Readable) =>
    readMultipart(body, headers['content-type'] ?? '', maxFileBytes + 1),
  )
}

/** Returns the file of a form's field; null when none was chosen. */
export function readFile(request: FastifyRequest, field: string): Buffer | null {
  const file = filesOf(request)?.get(field)
  return file && file.length > 0 ? file : null
}

/** Returns whether a file was chosen in a form of any kind. */
export function hasFile(request: FastifyRequest): boolean {
  return [...(filesOf(request)?.values() ?? [])].some(({ length }) => length > 0)
}

function filesOf({ body }: FastifyRequest): MultipartBody['files'] | undefined {
  return (body as Partial<MultipartBody> | undefined)?.files
}

async function readMultipart(body: Readable, contentType: string, fileSize: number): Promise<MultipartBody> {
  const form = new Map<string, string[]>()
  const files = new Map<string, Buffer>()
  let isReadable = true
  const fail = () => {
    isReadable = false
  }
  try {
    // Throws for a content type without a boundary.
    const parser = new Busboy({ headers: { 'content-type': contentType }, limits: { ...limits, fileSize } })
    parser.on('field', (name, value, isNameCut, isValueCut) => {
      if (isNameCut || isValueCut || /[\0\ufffd]/.test(name + value)) fail()
      // A field without a value counts as left out, as in other forms.
      if (value !== '') form.set(name, [...(form.get(name) ?? []), value])
    })
    parser.on('file', (name, file) => {
      const chunks: Buffer[] = []
      file.on('data', (chunk: Buffer) => chunks.push(chunk))
      file.on('end', () => files.set(name, Buffer.concat(chunks)))
      file.on('error', fail)
    })
    for (const event of ['partsLimit', 'filesLimit', 'fieldsLimit'] as const) parser.on(event, fail)
    await new Promise<void>((resolve, reject) => {
      parser.on('finish', resolve)
      parser.on('error', reject)
      body.on('error', reject)
      body.pipe(parser)
    })
  } catch {
    fail()
    // Read the rest of the body, so that the browser shows the response.
    body.unpipe()
    body.resume()
  }
  return isReadable ? { form, files } : { form: null, files: new Map() }
}
