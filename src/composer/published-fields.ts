import * as z from 'zod'
import { cleanLine } from '../domain/plain-text.ts'
import { isConstraint } from './constraint.ts'
import {
  cleanedObject,
  email,
  exactText,
  exactTextList,
  fitting,
  hasParentSegment,
  isIntegerKey,
  line,
  orNothing,
  saysSomething,
  url,
  valuesOf,
  withoutEmpty,
  withoutNothing,
} from './manifest-fields.ts'
import { isJsonObject, linkTypes, shown } from './manifest-json.ts'
import { isPackageName, isPlatformName, toLowerAscii } from './package-name.ts'

/** The number of mistakes that are reported for one key. */
const maxMistakes = 10

const mistakes = (path: string[], message: string) => ({ code: 'custom' as const, path, message })

/** A name without a vendor. Old packages replace such names, for example `news`. No package can have one. */
const withoutVendor = /^[a-z0-9_.-]+$/

/**
 * Returns whether a link is left out instead of refused: a name without a vendor in `replace`, `provide` or `conflict`.
 * It has no effect, because no package can have this name. Composer's own loader only warns about it.
 */
export function isWithoutEffect(type: string, target: string): boolean {
  const lower = toLowerAscii(target)
  return !type.startsWith('require') && withoutVendor.test(lower) && !isPlatformName(lower)
}

/** Links to other packages. Composer parses all links of a package at once, so one bad link breaks all versions. */
const links = z
  .record(z.string(), z.unknown(), 'must be an object')
  .superRefine((all, context) => {
    for (const [target, constraint] of Object.entries(all)) {
      if (context.issues.length >= maxMistakes) return
      const wrong = linkMistake(toLowerAscii(target), constraint)
      if (wrong !== null) context.addIssue(mistakes([target], wrong))
    }
  })
  .transform((all) =>
    Object.fromEntries(Object.entries(all).map(([target, text]) => [toLowerAscii(target), text])),
  )

function linkMistake(target: string, constraint: unknown): string | null {
  if (!isPackageName(target) && !isPlatformName(target)) {
    return 'is not the name of a package, an extension or a part of the platform'
  }
  if (typeof constraint !== 'string') return 'must be a string with a version constraint'
  if (constraint === 'self.version' || isConstraint(constraint)) return null
  return `must be a version constraint that Composer can parse, not "${shown(constraint)}"`
}

/** Links of `replace`, `provide` or `conflict`. */
const linksToReplaced = z.preprocess(
  (all) =>
    isJsonObject(all)
      ? Object.fromEntries(Object.entries(all).filter(([target]) => !isWithoutEffect('replace', target)))
      : all,
  links,
)

const suggestions = z
  .record(z.string(), z.unknown(), 'must be an object')
  .superRefine((all, context) => {
    for (const [target, reason] of Object.entries(all)) {
      if (context.issues.length >= maxMistakes) return
      if (isIntegerKey(cleanLine(target)))
        context.addIssue(mistakes([target], 'must be the name of a package'))
      if (typeof reason !== 'string') context.addIssue(mistakes([target], 'must be a string with the reason'))
    }
  })
  .transform((all) => {
    const cleaned = Object.entries(all).map(([target, reason]) => [
      cleanLine(target),
      cleanLine(String(reason)),
    ])
    return Object.fromEntries(cleaned.filter(([target]) => target !== '' && target !== '__proto__'))
  })

const paths = z.union([exactText, z.array(exactText)], 'must be a string')
const psr0 = z.record(z.string(), paths, 'must be an object').superRefine((namespaces, context) => {
  for (const namespace of Object.keys(namespaces)) {
    if (context.issues.length >= maxMistakes) return
    const { error } = exactText.safeParse(namespace)
    if (error) context.addIssue(mistakes([namespace], error.issues[0]?.message ?? ''))
    if (isIntegerKey(namespace)) context.addIssue(mistakes([namespace], 'must be a namespace'))
  }
})
const psr4 = psr0.superRefine((namespaces, context) => {
  for (const namespace of Object.keys(namespaces)) {
    if (namespace !== '' && !namespace.endsWith('\\')) {
      context.addIssue(mistakes([namespace], 'must end with a backslash'))
    }
  }
})

const autoload = z.preprocess(
  withoutNothing,
  z.object(
    {
      'psr-4': psr4.optional(),
      'psr-0': psr0.optional(),
      classmap: exactTextList.optional(),
      files: exactTextList.optional(),
      'exclude-from-classmap': exactTextList.optional(),
    },
    'must be an object',
  ),
)

const bin = z
  .preprocess((value) => (typeof value === 'string' ? [value] : value), exactTextList)
  .superRefine((binaries, context) => {
    const outside = binaries.find(hasParentSegment)
    if (outside === undefined) return
    context.addIssue(mistakes([], `must not contain "..", as "${shown(outside)}" does`))
  })
  .transform((binaries) => binaries.filter((path) => path !== ''))

const keywords = z
  .preprocess(valuesOf, z.array(z.union([z.string(), z.number(), z.boolean(), z.null()], 'must be a string')))
  .transform((all) =>
    all.flatMap(
      (keyword) => (['string', 'number'].includes(typeof keyword) && cleanLine(`${keyword}`)) || [],
    ),
  )

const author = z
  .object({
    name: orNothing(line),
    email: orNothing(email),
    homepage: orNothing(url()),
    role: orNothing(line),
  })
  .transform(withoutEmpty)
  .refine((known) => 'name' in known || 'email' in known)

/**
 * Support channels. Unknown keys may have any text. A string or a number instead of the object would crash Composer 2.5
 * and earlier.
 */
const support = z
  .object(
    {
      email: orNothing(email),
      irc: orNothing(url('ircs?|https?')),
      ...Object.fromEntries(
        ['issues', 'forum', 'wiki', 'source', 'docs', 'rss', 'chat', 'security'].map((key) => [
          key,
          orNothing(url()),
        ]),
      ),
    },
    'must be an object',
  )
  .catchall(orNothing(line))
  .transform((channels) => {
    const cleaned = Object.entries(channels).map(([key, value]) => [cleanLine(key), value] as const)
    return withoutEmpty(Object.fromEntries(cleaned.filter(([key]) => key !== '' && !isIntegerKey(key))))
  })

/** The release date in RFC 3339. Composer reads a date without a zone as UTC. */
const time = z.string('must be a string').transform((text) => {
  const parts =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)?)?$/i.exec(text) ?? []
  const [, day, clock = '00:00', zone = 'Z'] = parts
  const date = new Date(`${day}T${clock}${zone.toUpperCase()}`)
  return Number.isNaN(date.getTime()) ? undefined : `${date.toISOString().slice(0, 19)}+00:00`
})

/** Removes branch aliases, because an alias would give the version a second number. */
const extra = cleanedObject.transform((object) =>
  Object.fromEntries(Object.entries(object).filter(([key]) => key !== 'branch-alias')),
)

/** The keys that only describe a package. */
const description = {
  description: orNothing(line),
  keywords: keywords.optional(),
  homepage: orNothing(url()),
  license: z.preprocess((value) => (typeof value === 'string' ? [value] : value), fitting(line)).optional(),
  authors: fitting(author).optional(),
  support: z.preprocess((value) => (Array.isArray(value) ? undefined : value), support.optional()),
  funding: fitting(
    z.object({ type: orNothing(line), url: url() }).transform((link) => withoutEmpty(link)),
  ).optional(),
  time: time.optional(),
  extra: orNothing(extra),
}

/**
 * The keys for installing and loading. They are published unchanged, or refused, because a changed value would break
 * the package.
 */
const installation = {
  type: exactText.transform(toLowerAscii).optional(),
  'target-dir': exactText.refine((path) => !hasParentSegment(path), 'must not contain ".."').optional(),
  bin: bin.optional(),
  autoload: autoload.optional(),
  'include-path': exactTextList.optional(),
  'php-ext': cleanedObject.optional(),
}

/**
 * All keys of a composer.json that are published. The registry sets some other keys itself, and the rest matter in a
 * root package only. Each issue is a mistake that would break projects that use the package. Its path and message make
 * a sentence.
 */
export const PublishedFields = z
  .preprocess(
    withoutNothing,
    z.object({
      ...description,
      ...installation,
      require: links.optional(),
      'require-dev': links.optional(),
      conflict: linksToReplaced.optional(),
      replace: linksToReplaced.optional(),
      provide: linksToReplaced.optional(),
      suggest: suggestions.optional(),
    }),
  )
  .superRefine((fields, context) => {
    if (fields['target-dir'] && saysSomething(fields.autoload?.['psr-4'])) {
      context.addIssue(mistakes(['target-dir'], 'cannot be used together with autoload.psr-4'))
    }
    const { type, extra, require = {} } = fields
    if (type !== 'composer-plugin' && type !== 'composer-installer') return
    const { class: pluginClass = '' } = extra ?? {}
    const classes = Array.isArray(pluginClass) ? pluginClass : [pluginClass]
    if (classes.length === 0 || !classes.every((name) => typeof name === 'string' && name !== '')) {
      context.addIssue(mistakes(['extra', 'class'], `must name the class of a ${type}`))
    }
    if (type === 'composer-plugin' && !('composer-plugin-api' in require)) {
      context.addIssue(mistakes(['require', 'composer-plugin-api'], 'is required for a composer-plugin'))
    }
  })

/** The keys whose values only describe a package. */
export const descriptionKeys = Object.keys(description)
/** All keys of PublishedFields. */
export const publishedKeys = [...descriptionKeys, ...Object.keys(installation), ...linkTypes, 'suggest']
