import { statSync } from 'node:fs'

/**
 * Opens a file of the operator. The result returns its content, and reads the file again when it has changed, so that it can
 * be replaced without a restart. Throws what `read` throws. When the file becomes unreadable later, `onError` gets that error,
 * and the last content stays valid.
 */
export function openRereadFile<Content>(
  path: string,
  read: (path: string) => Content,
  onError: (error: Error) => void,
): () => Content {
  let version = versionOf(path)
  let content = read(path)
  return () => {
    const latest = versionOf(path)
    if (latest !== version) {
      version = latest
      try {
        content = read(path)
      } catch (error) {
        onError(error as Error)
      }
    }
    return content
  }
}

/** Returns a text that changes when the file is written or replaced. */
function versionOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false })
  return found ? `${found.ino} ${found.mtimeMs} ${found.size}` : ''
}
