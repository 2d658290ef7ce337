import { Counter } from 'prom-client'
import type { ArchiveMirrorContext } from '../../upstreams/archive-mirror.ts'
import type { MirrorContext } from '../../upstreams/mirror.ts'
import type { Metrics } from './serve-metrics.ts'

/** The number of hosts that have their own label. The others share `other`. */
const maxHosts = 100

/** Counts requests to upstreams. */
export interface UpstreamMetrics {
  noteDocument: NonNullable<MirrorContext['note']>
  noteServed: NonNullable<MirrorContext['noteServed']>
  noteArchive: NonNullable<ArchiveMirrorContext['note']>
}

/**
 * Adds the counters of upstreams. Their label `upstream` is the host, which anybody with a group can choose. So only
 * operators read it, and it has a bounded number of values. Everybody else reads the sums over all hosts.
 */
export function countUpstreams({ common, open, closed }: Metrics): UpstreamMetrics {
  const requests = {
    name: 'svc_upstream_requests_total',
    help: 'Requests to upstreams for documents and archives, by host, kind and outcome, without those of jobs.',
  }
  const bytes = {
    name: 'svc_upstream_archive_bytes_total',
    help: 'Bytes of archives that were fetched from upstreams.',
  }
  const labels = ['kind', 'outcome']
  const allRequests = new Counter({ ...requests, labelNames: labels, registers: [open] })
  const allBytes = new Counter({ ...bytes, registers: [open] })
  const requestsByHost = new Counter({
    ...requests,
    labelNames: ['upstream', ...labels],
    registers: [closed],
  })
  const bytesByHost = new Counter({ ...bytes, labelNames: ['upstream'], registers: [closed] })
  const served = new Counter({
    name: 'svc_upstream_documents_total',
    help: 'Documents of mirrored packages that were served: a hit needed no request to the upstream, a miss waited for one.',
    labelNames: ['result'],
    registers: [common],
  })
  const hosts = new Set<string>()

  function labelOf(url: string): string {
    const { host } = new URL(url)
    if (hosts.size < maxHosts) hosts.add(host)
    return hosts.has(host) ? host : 'other'
  }

  function count(upstream: string, kind: string, outcome: string): void {
    allRequests.inc({ kind, outcome })
    requestsByHost.inc({ upstream, kind, outcome })
  }

  return {
    noteDocument: ({ url }, outcome) => count(labelOf(url), 'document', outcome),
    noteServed: (result) => served.inc({ result }),
    noteArchive({ upstreamUrl }, outcome, size) {
      const upstream = labelOf(upstreamUrl)
      count(upstream, 'archive', outcome)
      allBytes.inc(size)
      bytesByHost.inc({ upstream }, size)
    },
  }
}
