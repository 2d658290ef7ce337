import { errcode, RegistryError } from '../errors.ts'

/** Longer names are refused: a name becomes a directory, a URL and a file name with more around it. */
export const maxPackageNameLength = 150

// Words with single separators between them: one way to read each character, so nothing to backtrack into.
const shape = /^[a-z0-9]+(?:[_.-][a-z0-9]+)*\/[a-z0-9]+(?:(?:[_.]|--?)[a-z0-9]+)*$/
const windowsDevice = /(?:^|\/)(?:nul|con|prn|aux|com[1-9]|lpt[1-9])(?:\/|$)/
const platform =
  /^(?:php(?:-(?:64bit|ipv6|zts|debug))?|hhvm|(?:ext|lib)-[a-z0-9]+(?:[_.-][a-z0-9]+)*|composer(?:-(?:plugin|runtime)-api)?)$/

/** Whether Composer takes this for a package's name: `vendor/package`, in lower case. */
export function isPackageName(name: string): boolean {
  return (
    name.length <= maxPackageNameLength &&
    shape.test(name) &&
    !windowsDevice.test(name) &&
    !name.endsWith('.json')
  )
}

/** Whether a name stands for a part of the platform: php, ext-json, composer-plugin-api. */
export function isPlatformName(name: string): boolean {
  return name.length <= maxPackageNameLength && platform.test(name)
}

/** Lower case as Composer makes it. JavaScript's own would also take the Kelvin sign for a k. */
export function toLowerAscii(name: string): string {
  return name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}

/** The name as it is stored and published: in lower case. Throws errcode 3 when it is no package name. */
export function readPackageName(name: string): string {
  const lower = toLowerAscii(name)
  if (isPackageName(lower)) return lower
  throw new RegistryError(errcode.invalidArgument, 'invalid package name', {
    warning:
      'a package name is vendor/package: letters, digits and single separators . _ - between them, ' +
      `at most ${maxPackageNameLength} characters, not ending in .json and not named like a Windows device`,
  })
}
