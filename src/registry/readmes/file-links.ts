/**
 * The beginning of attributes that name a file of the package in a rendered README. Its path follows, percent-encoded. No
 * text of a README can contain it, because quotes in texts are escaped.
 */
const fileLink = 'href="svc-file:'
const fileImage = 'src="svc-image:'

/** Returns the link to a file of the package, as a rendered README has it. */
export function linkToFile(path: string): string {
  return `svc-file:${encodeURIComponent(path)}`
}

/** Returns the URL of an image of the package, as a rendered README has it. */
export function linkToImage(path: string): string {
  return `svc-image:${encodeURIComponent(path)}`
}

/** Gives the links and images of a rendered README the URLs of files. Both URLs end where the path of a file begins. */
export function resolveFiles(html: string, urls: { page: string; image: string }): string {
  return html
    .replaceAll(fileLink, () => `href="${escapeAmpersands(urls.page)}`)
    .replaceAll(fileImage, () => `src="${escapeAmpersands(urls.image)}`)
}

/** URLs contain no quotes: paths and versions are percent-encoded. */
function escapeAmpersands(url: string): string {
  return url.replaceAll('&', '&amp;')
}
