/** What the URL of an archive names, below `dist/`: `<package>/<version>/<reference>.<type>`. */
export interface ArchiveUrl {
  packageName: string
  /** The version in the URL of this registry. */
  version: string
  /** The name of the file: the SHA-256 in lower-case hex, or the reference that an upstream gave the version. */
  reference: string
  /** The extension of the file. */
  type: string
}

/** Returns the name that a download gets on the disk of a person. It has no character that a header or a disk refuses. */
export function fileNameOf(packageName: string, version: string, type = 'zip'): string {
  return `${packageName}-${version}.${type}`.replaceAll(/[^\w.+-]/g, '-')
}
