import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { type DestinationStream, pino } from 'pino'
import type { Config } from '../../config.ts'

/** How long lines are gathered before they are written together, and how many characters at most. */
const gatherMilliseconds = 100
const maxCharacters = 64_000

/**
 * Opens the log of the process: JSON lines on stderr, or on the given stream. It contains no secrets, because it takes
 * only the method, the path and the client IP of a request, never its query, headers or body.
 */
export function openLog(level: Config['logLevel'], stream?: DestinationStream): FastifyBaseLogger {
  const options = {
    level,
    base: null,
    timestamp: isoTime,
    serializers: {
      req: describeRequest,
      res: (reply: { statusCode: number }) => ({ status: reply.statusCode }),
    },
  }
  return pino(options, stream ?? gatherLines(pino.destination({ dest: 2, sync: false })))
}

/**
 * Writes log lines together: every tenth of a second, at exit, and at once after a fatal line. Under load, one write per
 * line would take a fifth of the time of a pull, and a buffer that counts the bytes of each line a tenth.
 */
function gatherLines(destination: ReturnType<typeof pino.destination>) {
  let lines: string[] = []
  let characters = 0
  let timer: NodeJS.Timeout | undefined

  function pass(): void {
    clearTimeout(timer)
    timer = undefined
    if (lines.length === 0) return
    destination.write(lines.join(''))
    lines = []
    characters = 0
  }

  /** pino calls it after a fatal line. */
  function flushSync(): void {
    pass()
    destination.flushSync()
  }

  // Before pino's own listener, which closes the destination.
  process.prependOnceListener('beforeExit', pass)
  process.prependOnceListener('exit', flushSync)
  return {
    write(line: string) {
      lines.push(line)
      characters += line.length
      if (characters >= maxCharacters) pass()
      else timer ??= setTimeout(pass, gatherMilliseconds).unref()
    },
    flushSync,
  }
}

let lastMillisecond = 0
let lastTime = ''

/** Returns the time as pino's own `isoTime` does. Lines of the same millisecond share the text. */
function isoTime(): string {
  const now = Date.now()
  if (now !== lastMillisecond) {
    lastMillisecond = now
    lastTime = pino.stdTimeFunctions.isoTime()
  }
  return lastTime
}

function describeRequest(request: FastifyRequest) {
  return { method: request.method, path: pathOf(request.url), ip: request.ip }
}

/** Returns a request's path without its query, which may contain codes and states, and without an invitation's token. */
function pathOf(url: string): string {
  const query = url.indexOf('?')
  const path = query === -1 ? url : url.slice(0, query)
  return path.startsWith(invitations) && path !== invitations ? `${invitations}…` : path
}

const invitations = '/invitations/'
