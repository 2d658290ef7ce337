import type { Reporter, TestModule, TestSuite } from 'vitest/node'

/**
 * Names the groups and tests that were skipped, because a program that they need is not installed, or because this copy
 * has no history of git. Nothing else covers what they test.
 */
export function skippedReporter(): Reporter {
  let isForSomeNames = false
  return {
    onInit({ config }) {
      // Then most tests are skipped for their names.
      isForSomeNames = config.testNamePattern !== undefined
    },
    onTestRunEnd(modules) {
      const lines = modules.flatMap((module) =>
        skippedNames(module).map((name) => `  ${module.relativeModuleId}: ${name}\n`),
      )
      if (lines.length === 0 || isForSomeNames) return
      process.stdout.write(
        `Not tested here, because a program is missing (.ci/run installs them all), or the history of git:\n${lines.join('')}`,
      )
    },
  }
}

/** Names the outermost groups whose tests were all skipped, and the skipped tests of others. */
function skippedNames(group: TestModule | TestSuite): string[] {
  return [...group.children].flatMap((child) => {
    if (child.type === 'test') return child.result().state === 'skipped' ? [child.fullName] : []
    return child.state() === 'skipped' ? [child.fullName] : skippedNames(child)
  })
}
