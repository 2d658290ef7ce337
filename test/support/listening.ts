import { beforeAll } from 'vitest'
import { type TestApp, useApp } from './app.ts'

/** A whole server that listens on the loopback port. */
export function useListeningApp(port: number, environment: Record<string, string> = {}): TestApp {
  const t = useApp({ BASE_URL: `http://127.0.0.1:${port}`, ...environment })
  beforeAll(async () => {
    await t.app.listen({ port, host: '127.0.0.1' })
  })
  return t
}
