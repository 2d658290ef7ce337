import { errcode, Refusal } from '../domain/refusal.ts'

/** The maximum length of a name, which is part of directories, URLs and file names. */
export const maxPackageNameLength = 150

// Words with single separators between them. Each character matches in one way only, so the patterns never backtrack.
const words = '[a-z0-9]+(?:[_.-][a-z0-9]+)*'
const vendorShape = new RegExp(`^${words}$`)
const shape = new RegExp(`^${words}/[a-z0-9]+(?:(?:[_.]|--?)[a-z0-9]+)*$`)
const windowsDevice = /(?:^|\/)(?:nul|con|prn|aux|com[1-9]|lpt[1-9])(?:\/|$)/
const platform = new RegExp(
  `^(?:php(?:-(?:64bit|ipv6|zts|debug))?|hhvm|(?:ext|lib)-${words}|composer(?:-(?:plugin|runtime)-api)?)$`,
)

/** Returns whether Composer accepts this package name: `vendor/package`, in lower case. */
export function isPackageName(name: string): boolean {
  return (
    name.length <= maxPackageNameLength &&
    shape.test(name) &&
    !windowsDevice.test(name) &&
    !name.endsWith('.json')
  )
}

/** Returns whether a name can be the vendor of a package. */
export function isVendorName(name: string): boolean {
  return name.length <= maxPackageNameLength && vendorShape.test(name)
}

/** Returns whether a name is that of a part of the platform, such as php, ext-json or composer-plugin-api. */
export function isPlatformName(name: string): boolean {
  return name.length <= maxPackageNameLength && platform.test(name)
}

/** Converts ASCII letters to lower case, as Composer does. `toLowerCase` would also convert the Kelvin sign to k. */
export function toLowerAscii(name: string): string {
  return name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}

/** Returns the name in lower case, which is the stored and published form. Throws errcode 3 for an invalid name. */
export function readPackageName(name: string): string {
  const lower = toLowerAscii(name)
  if (isPackageName(lower)) return lower
  throw new Refusal(errcode.invalidArgument, 'invalid package name', {
    warning:
      'A package name is vendor/package: letters, digits and single separators . _ - between them, ' +
      `at most ${maxPackageNameLength} characters, not ending in .json and not named like a Windows device.`,
  })
}
