import type { FastifyRequest } from 'fastify'
import type { ArchiveStore, ReceivedArchive } from '../../../archives/archive-store.ts'
import { discardArchive } from '../../../archives/local-store.ts'
import type { Config } from '../../../config.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { receiveMultipart } from '../../composer/multipart.ts'
import { checkForgery } from '../../csrf.ts'

/** The parts of an upload form that were read. */
export interface ReceivedForm {
  form: Map<string, string[]>
  archive: ReceivedArchive | null
  fileName: string
  problem: Refusal | null
}

/** Streams the file to disk, after the form has proven that it comes from a page of this server. */
export async function receiveForm(
  { archives, config }: { archives: ArchiveStore; config: Config },
  request: FastifyRequest,
): Promise<ReceivedForm> {
  const received: ReceivedForm = { form: new Map(), archive: null, fileName: '', problem: null }
  const contentType = request.headers['content-type'] ?? ''
  try {
    received.archive = await receiveMultipart(
      archives,
      { request: request.raw, contentType },
      {
        maxBytes: config.maxArchiveBytes,
        onField: (name, value) => received.form.set(name, [value]),
        onFile: (fileName) => {
          received.fileName = cleanFileName(fileName)
          request.body = received
          checkForgery(request, config)
        },
      },
    )
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    received.problem = error
  }
  if (received.archive?.size === 0) {
    await discardArchive(received.archive)
    received.archive = null
  }
  return received
}

function cleanFileName(fileName: string): string {
  return fileName.replace(/[^\p{L}\p{N}\p{P}\p{S} ]/gu, '').slice(-100)
}
