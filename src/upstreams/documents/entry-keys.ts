import { isConstraint } from '../../composer/constraint.ts'
import { isJsonObject, type Json, type JsonObject, linkTypes } from '../../composer/manifest-json.ts'

/** Returns whether Composer can load an entry with this value of a key. Null counts as absent. */
export function isReadable(key: string, value: Json): boolean {
  return value === null || (shapes.get(key)?.(value) ?? true)
}

const isText = (value: Json | undefined) => typeof value === 'string'
const isTexts = (value: Json) => Array.isArray(value) && value.every(isText)
const isMap = (value: Json) => isJsonObject(value) || (Array.isArray(value) && value.length === 0)
const isTextMap = (value: Json) => isMap(value) && Object.values(value as JsonObject).every(isText)

const isTextOrNone = (value: Json | undefined) => value === undefined || value === null || isText(value)
const isListOrNone = (value: Json | undefined) =>
  value === undefined || value === null || Array.isArray(value)
const hasReadableAliases = (aliases: Json | undefined) =>
  !isJsonObject(aliases) || Object.values(aliases).every(isText)

/**
 * The types of keys that Composer needs to load an entry (COMPOSER E2). This is a map, because an object has values for
 * keys such as `constructor`, too.
 */
const shapes = new Map<string, (value: Json) => boolean>(
  Object.entries({
    type: isText,
    time: isText,
    'target-dir': isText,
    suggest: isTextMap,
    autoload: isMap,
    'autoload-dev': isMap,
    archive: (value) =>
      !isJsonObject(value) || (isTextOrNone(value['name']) && isListOrNone(value['exclude'])),
    dist: (value) =>
      !isJsonObject(value) || (isTextOrNone(value['reference']) && isTextOrNone(value['shasum'])),
    extra: (value) => !isJsonObject(value) || hasReadableAliases(value['branch-alias']),
    support: isMap,
    'php-ext': isMap,
    'include-path': isTexts,
    bin: (value) => isText(value) || isTexts(value),
    keywords: (value) => !Array.isArray(value) || isTexts(value),
    ...Object.fromEntries(linkTypes.map((key) => [key, isLinks])),
  }),
)

/**
 * Returns whether Composer can read links. PHP writes an empty object as `[]`. `self.version` means the version of
 * the package itself.
 */
function isLinks(links: Json): boolean {
  return (
    isTextMap(links) &&
    Object.entries(links as JsonObject).every(
      ([target, constraint]) =>
        /^[A-Za-z0-9_./-]+$/.test(target) &&
        (constraint === 'self.version' || isConstraint(constraint as string)),
    )
  )
}
