/**
 * The signals that stop svc: Ctrl-C, a supervisor, and the end of the terminal. Node ends at SIGHUP also under nohup,
 * and the embedded PostgreSQL would continue.
 */
export const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
