import { traceSources } from './domain/stack-traces.ts'

// Before the other modules are loaded.
traceSources()
const [{ loadEnvironmentFile, readConfig }, { explainFailure }, { serve }] = await Promise.all([
  import('./config.ts'),
  import('./web/server/failure.ts'),
  import('./web/server/serve.ts'),
])

try {
  loadEnvironmentFile()
  await serve(readConfig(process.env))
  process.exit(0)
} catch (error) {
  process.stderr.write(`svc: ${explainFailure(error)}\n`)
  process.exit(1)
}
