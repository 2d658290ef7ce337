import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'

type Entry = Record<string, unknown>

/** What Composer's own classes make of a Git repository. */
export interface ComposerReading {
  /** The versions that VcsRepository finds. */
  composer: Entry[]
  /** Those that also pass ValidatingArrayLoader, as Packagist asks. */
  packagist: Entry[]
  /** The p2 entries of svc, as Composer loads them. */
  svc: Entry[]
  /** What VcsRepository says about each tag and branch. */
  log: string[]
}

/** A field of a version that is not the same. */
export interface Difference {
  /** The normalized version. */
  version: string
  /** `entry` when one of both has no such version: then the values are the version as it is written. */
  field: string
  composer: unknown
  svc: unknown
}

const script = fileURLToPath(new URL('composer-vcs.php', import.meta.url))

/** Reads Git repositories, which are folders by name, with Composer, and loads the p2 entries of svc by the same names. */
export function readWithComposer(
  repositories: Record<string, string>,
  entries: Record<string, Entry[]>,
): Record<string, ComposerReading> {
  const output = execFileSync('php', ['-d', 'memory_limit=-1', script], {
    input: JSON.stringify({ repositories, entries }),
    maxBuffer: 2 ** 30,
  })
  return JSON.parse(output.toString()) as Record<string, ComposerReading>
}

/** Compares each field of each version, besides those that belong to the place: `dist` and the URL of `source`. */
export function compareReadings({ composer, svc }: ComposerReading): Difference[] {
  const [theirs, ours] = [byVersion(composer), byVersion(svc)]
  return [...new Set([...theirs.keys(), ...ours.keys()])].flatMap((version): Difference[] => {
    const [their, our] = [theirs.get(version), ours.get(version)]
    if (!their || !our)
      return [{ version, field: 'entry', composer: their?.['version'], svc: our?.['version'] }]
    return [...new Set([...Object.keys(their), ...Object.keys(our)])]
      .filter((field) => !isDeepStrictEqual(their[field], our[field]))
      .map((field) => ({ version, field, composer: their[field], svc: our[field] }))
  })
}

function byVersion(entries: Entry[]): Map<string, Entry> {
  return new Map(
    entries.map((entry) => {
      const { reference } = (entry['source'] ?? {}) as { reference?: string }
      return [String(entry['version_normalized']), { ...entry, dist: null, source: reference }]
    }),
  )
}
