import type { FastifyRequest } from 'fastify'
import { type DownloadCounter, describeDownload, type SentArchive } from '../packages/download-counter.ts'
import { addLogFields } from './log-fields.ts'

/**
 * Remembers who downloads an archive, and adds it to the log line of the request. Call it just before the bytes are sent.
 * Null for an archive whose downloads are not counted.
 */
export function noteDownload(
  downloads: DownloadCounter,
  request: FastifyRequest,
  sent: SentArchive | null,
): void {
  if (sent === null) return
  downloads.record(sent)
  addLogFields(request, { download: describeDownload(sent) })
}
