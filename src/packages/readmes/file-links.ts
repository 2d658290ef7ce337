/**
 * In a rendered README, an attribute with this beginning refers to a file of the package. The percent-encoded path
 * follows. No text of a README can contain the beginning, because quotes in texts are escaped.
 */
const fileLink = 'href="svc-file:'
const fileImage = 'src="svc-image:'

/** Returns the link to a file of the package, for a rendered README. */
export function linkToFile(path: string): string {
  return `svc-file:${encodeURIComponent(path)}`
}

/** Returns the URL of an image of the package, for a rendered README. */
export function linkToImage(path: string): string {
  return `svc-image:${encodeURIComponent(path)}`
}

/**
 * Replaces the links and images of a rendered README with URLs of the server. The path of the file is appended to each
 * of the given URLs.
 */
export function resolveFiles(html: string, urls: { page: string; image: string }): string {
  return html
    .replaceAll(fileLink, () => `href="${escapeAmpersands(urls.page)}`)
    .replaceAll(fileImage, () => `src="${escapeAmpersands(urls.image)}`)
}

/** Escapes ampersands. URLs contain no quotes, because paths and versions are percent-encoded. */
function escapeAmpersands(url: string): string {
  return url.replaceAll('&', '&amp;')
}
