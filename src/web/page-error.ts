interface PageErrorOptions {
  headers?: Record<string, string>
  /** Where the person can go on. Null for nowhere in particular. */
  next?: { url: string; label: string } | null
}

/** An error that is shown as a page. `message` says what happened and what to do. */
export class PageError extends Error {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly next: { url: string; label: string } | null

  constructor(status: number, message: string, { headers = {}, next = null }: PageErrorOptions = {}) {
    super(message)
    this.name = 'PageError'
    this.status = status
    this.headers = headers
    this.next = next
  }
}

/** Thrown when the browser must go to another page first. `location` is a path of this site. */
export class PageRedirect extends Error {
  override readonly name = 'PageRedirect'
  readonly location: string

  constructor(location: string) {
    super(`redirect to ${location}`)
    this.location = location
  }
}

/** Returns the error for a page that does not exist, or that the visitor may not see. */
export function pageNotFound(): PageError {
  return new PageError(404, 'This page does not exist, or you do not have access to it.')
}

/** Returns the error for a method that the URL does not support. */
export function wrongMethod(): PageError {
  return new PageError(405, 'This page does not support this request. Go back and try again.')
}
