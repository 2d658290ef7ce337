import { readFile } from 'node:fs/promises'
import { imageTypeOf } from './image-type.ts'
import { skeletonOf } from './lookalikes.ts'

/** How this installation shows itself to people: the settings SITE_NAME, SITE_LOGO and SITE_CONTACT. */
export interface Site {
  /** Null when it has none: pages then say svc, and mails the host. */
  name: string | null
  /** The path of an image file. Null for the logo of svc. */
  logoFile: string | null
  /** The email address of its administrators. Null without one. */
  contact: string | null
}

/** The maximum number of characters of SITE_NAME. */
export const maxSiteNameCharacters = 50
/** Every page and mail loads the logo. */
const maxSiteLogoBytes = 102_400

/** The logo of an installation. */
export interface SiteLogo {
  bytes: Buffer
  type: string
}

/** Reads the file of SITE_LOGO. Null without one. Throws an Error that says what is wrong with it. */
export async function readSiteLogo({ logoFile }: Site): Promise<SiteLogo | null> {
  if (logoFile === null) return null
  const bytes = await readFile(logoFile).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`SITE_LOGO ${logoFile} cannot be read (${error.code}).`)
  })
  if (bytes.length > maxSiteLogoBytes) {
    throw new Error(
      `SITE_LOGO ${logoFile} has ${bytes.length} bytes, more than ${maxSiteLogoBytes} (100 kB).`,
    )
  }
  const type = imageTypeOf(bytes) ?? (/<svg[\s>]/.test(bytes.toString()) ? 'image/svg+xml' : null)
  if (type === null) throw new Error(`SITE_LOGO ${logoFile} is not an SVG, PNG, JPEG, GIF or WebP image.`)
  return { bytes, type }
}

/**
 * Returns whom a message tells people to ask: an administrator, with the contact if there is one. Every message that
 * sends somebody to the administrators of the installation uses it.
 */
export function anAdministrator({ contact }: Pick<Site, 'contact'>): string {
  return contact === null ? 'an administrator' : `an administrator (${contact})`
}

/** Returns whether a name looks like the name of the installation, its host, or svc. Applications may not have it. */
export function isNameOfSite(
  name: string,
  { baseUrl, site }: { baseUrl: string; site: Pick<Site, 'name'> },
): boolean {
  const own = ['svc', site.name ?? 'svc', new URL(baseUrl).hostname]
  return own.map(skeletonOf).includes(skeletonOf(name))
}
