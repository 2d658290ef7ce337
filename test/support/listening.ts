import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { beforeAll } from 'vitest'
import { type TestApp, useApp } from './app.ts'

/** Returns a loopback port that is free. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** A whole server that listens on the loopback port. */
export function useListeningApp(port: number, environment: Record<string, string> = {}): TestApp {
  const t = useApp({ BASE_URL: `http://127.0.0.1:${port}`, ...environment })
  beforeAll(async () => {
    await t.app.listen({ port, host: '127.0.0.1' })
  })
  return t
}
