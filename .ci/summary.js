// Prints what a run of the tests came to: node .ci/summary.js <folder of vitest's JSON reports> <exit code>
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

const [folder = '.', exitCode = '0'] = process.argv.slice(2)
const reports = readdirSync(folder).filter((name) => name.endsWith('.json'))

const lines = ['', '════ Summary ════']
for (const name of reports.sort()) lines.push(...summarize(name))
if (reports.length === 0) lines.push('No tests were run.')
lines.push(exitCode === '0' ? 'Everything passed.' : `FAILED with exit code ${exitCode}.`)
process.stdout.write(`${lines.join('\n')}\n`)

function summarize(name) {
  const report = JSON.parse(readFileSync(join(folder, name), 'utf8'))
  const tests = report.testResults.flatMap(({ name: file, assertionResults }) =>
    assertionResults.map((test) => ({ ...test, file: relative(process.cwd(), file) })),
  )
  const list = (title, some) =>
    some.length === 0 ? [] : [`  ${title}:`, ...some.map(({ file, fullName }) => `    ${file} > ${fullName}`)]
  const withStatus = (...statuses) => tests.filter(({ status }) => statuses.includes(status))
  const failed = withStatus('failed')
  const skipped = withStatus('skipped', 'pending', 'todo', 'disabled')
  // A file that cannot be loaded has no tests that could fail.
  const broken = report.testResults.filter(
    ({ status, assertionResults }) =>
      status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  )
  const files = `${report.testResults.length} files`
  return [
    `${name.replace(/\.json$/, '')}: ${withStatus('passed').length} passed, ${failed.length} failed, ${skipped.length} skipped, in ${files}`,
    ...list('Failed', failed),
    ...list('Skipped', skipped),
    ...broken.map(({ name: file, message }) => `  Broken: ${relative(process.cwd(), file)}: ${message}`),
  ]
}
