import { writeFile } from 'node:fs/promises'
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node'

/**
 * Names the groups and tests that were skipped, because a program that they need is not installed, or because this copy
 * has no history of git. Nothing else covers what they test. If TEST_SUMMARY is the path of a file, a summary of the whole
 * run is written to it, also with the groups that could not be tested, because their preparation failed.
 */
export function summaryReporter(): Reporter {
  let isForSomeNames = false
  return {
    onInit({ config }) {
      // Then most tests are skipped for their names.
      isForSomeNames = config.testNamePattern !== undefined
    },
    async onTestRunEnd(modules) {
      const skipped = modules.flatMap(skippedNames)
      if (skipped.length > 0 && !isForSomeNames)
        process.stdout.write(
          lines(
            'Not tested here, because a program is missing (.ci/run installs those of Debian), or the history of git:',
            skipped,
          ),
        )
      const path = process.env['TEST_SUMMARY']
      if (path) await writeFile(path, summaryOf(modules, skipped))
    },
  }
}

function summaryOf(modules: readonly TestModule[], skipped: string[]): string {
  const tests = modules.flatMap((module) => [...module.children.allTests()])
  const failed = tests.filter((test) => test.result().state === 'failed')
  const passed = tests.filter((test) => test.result().state === 'passed')
  const broken = modules.flatMap((module) => [module, ...module.children.allSuites()]).flatMap(problemsOf)
  return [
    `Node ${process.version}: ${passed.length} passed, ${failed.length} failed, in ${modules.length} files\n`,
    lines('Failed:', failed.map(nameOf)),
    lines('Not tested, because their preparation failed:', broken),
    lines('Skipped:', skipped),
  ].join('')
}

/** Returns the failures of hooks, and of loading a file: they are errors of no test. */
function problemsOf(group: TestModule | TestSuite): string[] {
  return group.errors().map(({ message }) => `${nameOf(group)}: ${message}`)
}

/** Names the outermost groups whose tests were all skipped, and the skipped tests of others. */
function skippedNames(group: TestModule | TestSuite): string[] {
  return [...group.children].flatMap((child) => {
    if (child.type === 'test') return child.result().state === 'skipped' ? [nameOf(child)] : []
    return child.state() === 'skipped' ? [nameOf(child)] : skippedNames(child)
  })
}

function nameOf(group: TestModule | TestSuite | TestCase): string {
  return group.type === 'module'
    ? group.relativeModuleId
    : `${group.module.relativeModuleId}: ${group.fullName}`
}

/** Returns a title and its lines. Returns nothing without lines. */
function lines(title: string, list: string[]): string {
  return list.length === 0 ? '' : `${title}\n${list.map((line) => `  ${line}\n`).join('')}`
}
