/** An error that a person reads as a page. `message` says what happened and what to do about it. */
export class PageError extends Error {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, message: string, headers: Record<string, string> = {}) {
    super(message)
    this.name = 'PageError'
    this.status = status
    this.headers = headers
  }
}

/** The page for everything that does not exist, or that the visitor may not see. */
export function pageNotFound(): PageError {
  return new PageError(404, 'This page does not exist, or you may not see it.')
}

/** The page for a method that the URL does not have. */
export function wrongMethod(): PageError {
  return new PageError(405, 'This page exists, but it cannot be used in this way. Go back and try again.')
}
