/**
 * Flags of Node for the processes of tests: most functions run too rarely there for what their optimization costs. Node 24
 * has no such flag.
 */
export const rareOptimization =
  Number(process.versions.node.split('.')[0]) < 24 ? ['--interrupt-budget=1000000'] : []
