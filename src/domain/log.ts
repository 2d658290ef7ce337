import type { BaseLogger } from 'pino'

/** What the domain needs of a log. The logs of the server, of a request and of a command are ones. */
export type Log = Pick<BaseLogger, 'debug' | 'info' | 'warn' | 'error'>
