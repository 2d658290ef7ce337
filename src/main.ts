import { loadEnvironmentFile, readConfig } from './config.ts'
import { explainFailure } from './web/server/failure.ts'
import { serve } from './web/server/serve.ts'

try {
  loadEnvironmentFile()
  await serve(readConfig(process.env))
  process.exit(0)
} catch (error) {
  process.stderr.write(`svc: ${explainFailure(error)}\n`)
  process.exit(1)
}
