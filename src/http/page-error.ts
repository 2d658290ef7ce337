/** A refusal that a person reads as a page. `message` says what happened and what to do about it. */
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

/** The page for everything that is not there, or must look so. */
export function notFound(): PageError {
  return new PageError(404, 'There is nothing at this address, or you may not see it.')
}

/** The page for a method that the address does not have. */
export function wrongMethod(allow: string): PageError {
  return new PageError(405, 'This address is there, but not for what was asked of it.', { allow })
}
