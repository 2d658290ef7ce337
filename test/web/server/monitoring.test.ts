import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { noteMaintenance } from '../../../src/database/installation.ts'
import { jobs } from '../../../src/web/server/jobs.ts'
import { anAccount, cookiesOf, csrfTokenIn, post } from '../../support/actors.ts'
import { aCaller } from '../../support/api-actors.ts'
import { useListeningApp } from '../../support/listening.ts'
import { freePort } from '../../support/program.ts'
import { expand } from '../../support/registry-actors.ts'
import { upstreamsHere, useUpstream } from '../../support/upstream.ts'

/** A metric of `/metrics`: the labels of its samples, with all their values. */
type Labels = ReadonlyMap<string, ReadonlySet<string>>

interface Panel {
  title: string
  type: string
  targets?: { expr: string; legendFormat: string }[]
}

/** Prometheus adds these to every sample. */
const labelsOfPrometheus = ['instance']

const document = await readFile('docs/monitoring.md', 'utf8')
const dashboard = JSON.parse(await readFile('docs/grafana-dashboard.json', 'utf8')) as {
  panels: Panel[]
  templating: { list: { query: string | { query: string } }[] }
}
const yaml = Array.from(document.matchAll(/```yaml\n(.*?)```/gs), ([, text = '']) => text)
const rules = yaml.flatMap(
  (text) =>
    (parse(text) as { groups?: { rules: { alert: string; expr: string }[] }[] }).groups?.[0]?.rules ?? [],
)
const panels = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr, legendFormat }) => ({ title, expr, legendFormat })),
)

describe('docs/monitoring.md and docs/grafana-dashboard.json', async () => {
  const token = 'a-token-of-the-monitoring'
  const port = await freePort()
  const t = useListeningApp(port, { ...upstreamsHere, METRICS_TOKEN: token })
  const upstream = useUpstream()
  let metrics: ReadonlyMap<string, Labels>

  async function readMetrics(): Promise<Map<string, Map<string, Set<string>>>> {
    const headers = { authorization: `Bearer ${token}` }
    const { body } = await t.app.inject({ url: '/metrics', headers })
    const found = new Map(
      Array.from(body.matchAll(/^# TYPE (\S+) /gm), ([, name = '']) => [
        name,
        new Map<string, Set<string>>(),
      ]),
    )
    for (const [, name = '', labels = ''] of body.matchAll(/^(\w+)(?:\{(.*)\})? \S+$/gm)) {
      const metric = found.get(name) ?? found.get(familyOf(name))
      for (const [, label = '', value = ''] of labels.matchAll(/(\w+)="([^"]*)"/g)) {
        metric?.set(label, (metric.get(label) ?? new Set()).add(value))
      }
    }
    return found
  }

  // Uses everything that a metric has labels for.
  beforeAll(async () => {
    const { call, ask, push, path } = await aCaller(t)
    await push('1.0.0')
    await ask('p2/acme/lib.json')
    await t.app.inject('/readyz')
    await call('POST', '/upstreams', { url: upstream.url, name: 'public' })
    upstream.offer('far/lib', ['1.0.0'])
    const [entry] = expand((await ask('p2/far/lib.json')).body, 'far/lib')
    const { url } = { ...(entry?.['dist'] as object) } as { url: string }
    await ask(url.slice(`${t.config.baseUrl}${path}`.length))
    upstream.fail('/p2/far/failing.json', 500)
    expect((await ask('p2/far/failing.json')).statusCode).toBe(503)
    const form = await t.app.inject('/login')
    const { username } = await anAccount(t.db)
    await post(t.app, '/login', cookiesOf(form), {
      csrf_token: csrfTokenIn(form),
      username,
      password: 'wrong',
    })
    for (const work of ['backup', 'garbage-collection'] as const) await noteMaintenance(t.db, work)
    const hasRunJobs = async () => (await readMetrics()).get('svc_job_duration_seconds')?.size === 3
    while (!(await hasRunJobs())) await sleep(100)
    metrics = await readMetrics()
  })

  /** Returns what a query expects and `/metrics` does not have. */
  function listUnknown(expr: string, legend = ''): string[] {
    const used = listSelectors(expr)
    const known = used.map(({ metric }) => metrics.get(familyOf(metric)))
    const unknown = used.flatMap(({ metric, matchers }, i) => {
      const labels = known[i]
      if (!labels) return [metric]
      return matchers.flatMap(({ label, operator, value }) => {
        const values = labels.get(label)
        if (!values) return labelsOfPrometheus.includes(label) ? [] : [`${metric}{${label}}`]
        // Only an outcome or a status need not have happened here.
        if (operator !== '=' || ['outcome', 'status'].includes(label) || values.has(value)) return []
        return [`${metric}{${label}="${value}"}`]
      })
    })
    const grouped = [
      ...Array.from(expr.matchAll(/\b(?:by|ignoring|on) \(([^)]*)\)/g), ([, list = '']) =>
        list.split(', '),
      ).flat(),
      ...Array.from(legend.matchAll(/\{\{(\w+)\}\}/g), ([, label = '']) => label),
    ]
    const labels = new Set([...labelsOfPrometheus, ...known.flatMap((one) => [...(one?.keys() ?? [])])])
    return [...unknown, ...grouped.filter((label) => !labels.has(label))]
  }

  it('use only metrics and labels that /metrics has', () => {
    expect([rules.length, panels.length]).toEqual([expect.any(Number), expect.any(Number)])
    expect(rules.length).toBeGreaterThan(10)
    expect(panels.length).toBeGreaterThan(20)
    const ofPrometheus = ({ expr }: { expr: string }) => expr.startsWith('up{')
    const wrong = [
      ...rules
        .filter((rule) => !ofPrometheus(rule))
        .map(({ alert, expr }) => [alert, listUnknown(expr)] as const),
      ...panels.map(({ title, expr, legendFormat }) => [title, listUnknown(expr, legendFormat)] as const),
    ].filter(([, unknown]) => unknown.length > 0)
    expect(wrong).toEqual([])
    expect(listUnknown('sum by (nothing) (svc_none{state="x"}) + svc_jobs{state="none",other="x"}')).toEqual([
      'svc_none',
      'svc_jobs{state="none"}',
      'svc_jobs{other}',
      'nothing',
    ])
  })

  it('alert on failures of the server with any status, because outages are 503 and a full disk is 507', () => {
    const { expr = '' } = rules.find(({ alert }) => alert === 'SvcErrors') ?? {}
    expect(expr).toMatch(/svc_http_failures_total\{route!="\/readyz"\}/)
  })

  it('name background jobs that exist', () => {
    const names = [...document.matchAll(/job=~"([^"]+)"/g)].flatMap(([, list = '']) => list.split('|'))
    expect(names.length).toBeGreaterThan(0)
    const scheduled = jobs.filter(({ everySeconds }) => everySeconds !== undefined).map(({ name }) => name)
    expect(names.filter((name) => !scheduled.includes(name))).toEqual([])
  })

  it('describe every metric of svc, and no other', () => {
    const own = [...metrics.keys()].filter((name) => name.startsWith('svc_'))
    const described = [...document.matchAll(/^\| (`svc_.*?) \|/gm)].flatMap(([, names = '']) =>
      Array.from(names.matchAll(/`(\w+)`/g), ([, name = '']) => name),
    )
    expect(described.toSorted()).toEqual(own.toSorted())
  })

  it('choose the process by a label that /metrics has', () => {
    const queries = dashboard.templating.list.map(({ query }) =>
      typeof query === 'string' ? query : query.query,
    )
    expect(queries).toEqual(['prometheus', 'label_values(svc_build_info, instance)'])
    expect(metrics.has('svc_build_info')).toBe(true)
  })
})

/** Returns the name of a histogram whose part has this name. */
function familyOf(name: string): string {
  return name.replace(/_(?:bucket|count|sum)$/, '')
}

/** Returns the metrics of a query, each with its matchers. */
function listSelectors(expr: string) {
  const selectors = expr.matchAll(/\b((?:svc|nodejs|process)_\w+)(?:\{([^}]*)\})?/g)
  return Array.from(selectors, ([, metric = '', matchers = '']) => ({
    metric,
    matchers: Array.from(
      matchers.matchAll(/(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g),
      ([, label = '', operator = '', value = '']) => ({ label, operator, value }),
    ),
  }))
}
