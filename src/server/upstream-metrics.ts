import { Counter, type Registry } from 'prom-client'
import type { ArchiveMirrorContext } from '../registry/upstreams/archive-mirror.ts'
import type { MirrorContext } from '../registry/upstreams/check-document.ts'

/** Counts requests to upstreams. */
export interface UpstreamMetrics {
  noteDocument: NonNullable<MirrorContext['note']>
  noteServed: NonNullable<MirrorContext['noteServed']>
  noteArchive: NonNullable<ArchiveMirrorContext['note']>
}

/**
 * Adds the counters of upstreams to `/metrics`. Their label is the upstream's host, which an administrator configured.
 */
export function countUpstreams(registry: Registry): UpstreamMetrics {
  const requests = new Counter({
    name: 'svc_upstream_requests_total',
    help: 'Requests to upstreams for documents and archives, by host, kind and outcome, without those of jobs.',
    labelNames: ['upstream', 'kind', 'outcome'],
    registers: [registry],
  })
  const served = new Counter({
    name: 'svc_upstream_documents_total',
    help: 'Documents of mirrored packages that were served: a hit needed no request to the upstream, a miss waited for one.',
    labelNames: ['result'],
    registers: [registry],
  })
  const bytes = new Counter({
    name: 'svc_upstream_archive_bytes_total',
    help: 'Bytes of archives that were fetched from upstreams.',
    labelNames: ['upstream'],
    registers: [registry],
  })
  return {
    noteDocument: ({ url }, outcome) =>
      requests.inc({ upstream: new URL(url).host, kind: 'document', outcome }),
    noteServed: (result) => served.inc({ result }),
    noteArchive({ upstreamUrl }, outcome, size) {
      const upstream = new URL(upstreamUrl).host
      requests.inc({ upstream, kind: 'archive', outcome })
      bytes.inc({ upstream }, size)
    },
  }
}
