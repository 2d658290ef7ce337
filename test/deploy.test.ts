import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { readConfig } from '../src/config.ts'
import { has } from './support/requires.ts'

const pathOf = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url))
const read = (name: string) => readFile(pathOf(name), 'utf8')

describe('deploy/svc.service', () => {
  it.runIf(has('systemd-analyze'))('has an exposure of at most 2 for systemd-analyze', () => {
    const words = ['security', '--offline=true', '--no-pager', pathOf('deploy/svc.service')]
    const { stdout, stderr } = spawnSync('systemd-analyze', words, { encoding: 'utf8' })
    const [, exposure] = /Overall exposure level for svc\.service: ([\d.]+)/.exec(stdout) ?? []
    expect([stderr, Number(exposure)]).toEqual(['', expect.any(Number)])
    expect(Number(exposure)).toBeLessThanOrEqual(2)
  })

  it('keeps what svc needs: machine code, PostgreSQL by its socket, and longer stops than svc takes', async () => {
    const unit = await read('deploy/svc.service')
    expect(unit).not.toMatch(/^MemoryDenyWriteExecute/m)
    expect(unit).toMatch(/^RestrictAddressFamilies=.*AF_UNIX/m)
    expect(unit).toMatch(/^SystemCallErrorNumber=EPERM$/m)
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(20)
    expect(/^StateDirectory=(.+)$/m.exec(unit)?.[1]).toBe(/DATA_DIR=\/var\/lib\/(\S+)/.exec(unit)?.[1])
  })
})

describe('docker-compose.yml', async () => {
  const { services, volumes } = parse(await read('docker-compose.yml'))

  it.each(Object.keys(services))(
    'lets %s write only its volumes, without capabilities that it does not need',
    (name) => {
      const service = services[name]
      expect(service).toMatchObject({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        tmpfs: expect.arrayContaining(['/tmp']),
      })
      expect(service.cap_add ?? []).not.toContain('SYS_ADMIN')
      const writable = service.volumes.filter((volume: string) => !volume.endsWith(':ro'))
      for (const volume of writable) expect(Object.keys(volumes)).toContain(volume.split(':')[0])
    },
  )
})

describe('images', () => {
  it('are pinned to digests', async () => {
    const pinned = /^[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}$/
    const { services } = parse(await read('docker-compose.yml'))
    expect(services.postgres.image).toMatch(pinned)
    const images = (await read('Dockerfile')).match(/node:\S+/g) ?? []
    expect(images.length).toBeGreaterThan(0)
    for (const image of images) expect(image).toMatch(pinned)
  })
})

describe('deploy/kubernetes/svc.yaml', async () => {
  const documents = parseAllDocuments(await read('deploy/kubernetes/svc.yaml')).map((document) =>
    document.toJS(),
  )
  const theOne = (kind: string) => documents.find((document) => document.kind === kind)
  const { spec: pod } = theOne('Deployment').spec.template
  const [container] = pod.containers

  it('has settings that svc accepts', () => {
    const secret = { SECRET_KEY: 'x'.repeat(32), DATABASE_URL: 'postgres://svc:secret@postgres/svc' }
    const keys = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' }
    const settings = theOne('ConfigMap').data
    const config = readConfig({ ...settings, ...secret, ...keys })
    expect(config.archiveStore?.name).toBe('packages')
    expect(container.ports.map((port: { containerPort: number }) => port.containerPort)).toEqual([
      config.port,
      config.metrics.port,
    ])
    expect(theOne('Ingress').spec.rules[0].host).toBe(new URL(config.baseUrl).host)
  })

  it('lets the pods write only their volumes, and nothing else', () => {
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
    })
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    const mounts = container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath)
    expect(mounts).toEqual(['/var/lib/svc', '/tmp'])
  })

  it('asks the endpoints that svc has, and stops later than svc does', () => {
    const { livenessProbe, readinessProbe, startupProbe, lifecycle } = container
    const paths = [livenessProbe, readinessProbe, startupProbe].map(({ httpGet }) => httpGet.path)
    expect(paths).toEqual(['/healthz', '/readyz', '/healthz'])
    const [, seconds] = lifecycle.preStop.exec.command
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(Number(seconds) + 20)
  })

  it('names only objects that it contains, besides the secrets of the operator', () => {
    const names = new Set(documents.map(({ kind, metadata }) => `${kind} ${metadata.name}`))
    const [{ http }] = theOne('Ingress').spec.rules
    expect(names).toContain(`Service ${http.paths[0].backend.service.name}`)
    expect(names).toContain(`ConfigMap ${container.envFrom[0].configMapRef.name}`)
    expect(names).toContain(`ServiceAccount ${pod.serviceAccountName}`)
    for (const kind of ['Service', 'PodDisruptionBudget']) {
      const { selector } = theOne(kind).spec
      expect(selector.matchLabels ?? selector).toEqual(theOne('Deployment').spec.template.metadata.labels)
    }
  })
})

describe('a release', () => {
  it('has the version of package.json in the changelog, and says from which one it can be upgraded', async () => {
    const { version } = JSON.parse(await read('package.json')) as { version: string }
    const entries = (await read('CHANGELOG.md')).split(/^## /m).slice(1)
    const [latest = ''] = entries
    expect(entries.some((entry) => entry.startsWith(`${version}\n`))).toBe(true)
    expect(latest).toMatch(/^(?:Unreleased|\d+\.\d+\.\d+)\n\nUpgrades from \d+\.\d+\.\d+/)
  })
})
