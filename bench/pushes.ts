import { aPackageZip } from '../test/support/registry-actors.ts'
import { aManifest, aRegistry, claimPackages, growPackage, type Registry } from './seed.ts'
import type { Server } from './server.ts'
import { figure, table } from './table.ts'

/**
 * Measures pushes, one after another. The package gets more and more versions, and the repository more and more
 * packages.
 */
export async function measurePushes(server: Server, pushes: number): Promise<string> {
  const rows: string[][] = []
  const registry = await aRegistry(server.db, 'private')
  for (const size of [10, 100, 1000, 5000]) {
    const name = `bench/versions${size}`
    await growPackage(server.db, registry.repository.id, { name, to: size, baseUrl: server.baseUrl })
    const milliseconds = await push(server, registry, pushes, (i) => [name, `1.0.${size + i}`])
    rows.push([`one more version, ${size.toLocaleString('en')} in the package`, ...cells(milliseconds)])
  }
  for (const count of [10, 1000, 9000]) {
    const grown = await aRegistry(server.db, 'private')
    const claim = { vendor: 'bench', count }
    await claimPackages(server.db, grown.repository.id, claim)
    const known = await push(server, grown, pushes, (i) => ['bench/lib0', `1.0.${i}`])
    rows.push([`one more version, ${count.toLocaleString('en')} packages in the repository`, ...cells(known)])
    const fresh = await push(server, grown, pushes, (i) => [`bench/new${i}`, '1.0.0'])
    rows.push([`one more package, ${count.toLocaleString('en')} packages in the repository`, ...cells(fresh)])
  }
  return table(['push', 'median ms', 'slowest ms'], rows)
}

/** Returns the time of each upload in milliseconds. The first upload is not measured. */
async function push(
  { baseUrl }: Server,
  { path, authorization }: Registry,
  count: number,
  what: (i: number) => [name: string, version: string],
): Promise<number[]> {
  const milliseconds: number[] = []
  for (let i = 0; i <= count; i += 1) {
    const [name, version] = what(i)
    const manifest = { ...aManifest(name), extra: { build: `${i}` } }
    const body = new Uint8Array(aPackageZip(name, manifest))
    const start = performance.now()
    const url = `${baseUrl}${path}upload/${name}/${version}`
    const response = await fetch(url, { method: 'PUT', headers: { authorization }, body })
    const text = await response.text()
    if (response.status !== 201) throw new Error(text)
    if (i > 0) milliseconds.push(performance.now() - start)
  }
  return milliseconds
}

function cells(milliseconds: number[]): string[] {
  const sorted = milliseconds.toSorted((a, b) => a - b)
  return [sorted[sorted.length >> 1] ?? 0, sorted.at(-1) ?? 0].map(figure)
}
