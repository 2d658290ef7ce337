/**
 * The signals that stop svc: Ctrl-C, a supervisor, and the end of the terminal. Node ends at SIGHUP also under nohup,
 * and the embedded PostgreSQL would continue.
 */
export const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * The terminal sends a Ctrl-C to npm and to svc, and npm forwards it to svc. Signals within this time are one Ctrl-C.
 */
export const sameSignalSeconds = 1
