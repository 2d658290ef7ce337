/** A flag of Node for the processes of tests: most functions run too rarely there for what their optimization costs. */
export const rareOptimization = '--interrupt-budget=1000000'
