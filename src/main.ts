// Stack traces name the files and lines of src/. That is so for modules that are loaded after this line.
process.setSourceMapsEnabled(true)
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
