import { cleanLine } from '../../domain/plain-text.ts'
import { isConstraint } from './constraint.ts'
import { isIntegerKey, readObject, type Warn, withoutEmpty } from './manifest-fields.ts'
import type { Json, JsonObject } from './manifest-json.ts'
import { refuseManifest, shown } from './manifest-refusal.ts'
import { isPackageName, isPlatformName, toLowerAscii } from './package-name.ts'

const linkTypes = ['require', 'require-dev', 'conflict', 'replace', 'provide'] as const

/**
 * What a package needs, excludes, stands for and suggests. Composer parses every link of every version before it
 * chooses one, so a single bad link takes the whole package away from everybody: it is refused.
 */
export function readLinks(manifest: JsonObject, name: string, warn: Warn): JsonObject {
  const links = withoutEmpty(
    Object.fromEntries(linkTypes.map((type) => [type, readLinksOf(manifest, type, name, warn)])),
  )
  const replaced = new Set(Object.keys(links['replace'] ?? {}))
  for (const target of Object.keys(links['conflict'] ?? {})) {
    if (replaced.has(target)) warn(`conflict.${target} is replaced too, which already excludes it`)
  }
  return { ...links, ...withoutEmpty({ suggest: readSuggestions(manifest) }) }
}

function readLinksOf(manifest: JsonObject, type: string, name: string, warn: Warn): JsonObject | undefined {
  const links = readObject(manifest, type)
  if (links === undefined) return undefined
  const kept = Object.entries(links).filter(([target, constraint]) => {
    checkLink(`${type}.${target}`, toLowerAscii(target), constraint)
    if (toLowerAscii(target) !== name) return true
    warn(`${type}.${target} is left out: a package is not its own dependency`)
    return false
  })
  return Object.fromEntries(kept)
}

function checkLink(field: string, target: string, constraint: Json): void {
  if (!isPackageName(target) && !isPlatformName(target)) {
    refuseManifest(field, 'is not the name of a package, an extension or a part of the platform')
  }
  if (typeof constraint !== 'string') refuseManifest(field, 'must be a string with a version constraint')
  if (constraint !== 'self.version' && !isConstraint(constraint)) {
    refuseManifest(field, `must be a version constraint that Composer can parse, not "${shown(constraint)}"`)
  }
}

function readSuggestions(manifest: JsonObject): JsonObject | undefined {
  const suggestions = Object.entries(readObject(manifest, 'suggest') ?? {}).map(([target, reason]) => {
    const field = `suggest.${target}`
    const cleanTarget = cleanLine(target)
    if (isIntegerKey(cleanTarget)) refuseManifest(field, 'must be the name of a package')
    if (typeof reason !== 'string') refuseManifest(field, 'must be a string that says why')
    return [cleanTarget, cleanLine(reason)] as const
  })
  return Object.fromEntries(suggestions.filter(([target]) => target !== '' && target !== '__proto__'))
}
